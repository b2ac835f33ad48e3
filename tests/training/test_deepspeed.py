"""What DeepSpeed and offloading cannot do is refused at once, and its loss scale is the run's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout
from trainwright.spec.load import spec_from_values
from trainwright.spec.model import RunSpec
from trainwright.training.deepspeed import EngineScale, refuse
from trainwright.training.parallel import refuse_unsupported
from trainwright.training.precision import LossScale


def spec(**fields: Any) -> RunSpec:
    return spec_from_values(
        {"name": "x", "model": "/m", "data": {"sources": ["/d"]}, "global_batch_size": 8, **fields}
    )


def test_everything_that_deepspeed_cannot_do_is_said_at_once() -> None:
    wanted = spec(
        engine="deepspeed", offload={"optimizer": "cpu", "parameters": "cpu"}, compile=True, precision="fp16",
        optimizer={"name": "adafactor"},
    )  # fmt: skip
    with pytest.raises(AnswerNo) as caught:
        refuse(wanted, Layout(tp=2, pp=2, dp_shard=2, dp_replicate=2, zero=2), "fp16", "cpu")
    said = str(caught.value)
    for words in (
        "parallelism.pp is 2",
        "parallelism.tp is 2",
        "dp_replicate 2",
        "zero 2",
        "adafactor",
        "compile",
        "CPU",
    ):
        assert words in said
    assert "dp_shard: 4" in said
    refuse(spec(engine="deepspeed", offload={"optimizer": "cpu"}), Layout(dp_shard=2, zero=2), "bf16", "cpu")
    with pytest.raises(AnswerNo, match="checkpoints of state on drives are not proved"):
        refuse(spec(engine="deepspeed", offload={"optimizer": "nvme"}), Layout(dp_shard=2, zero=2), "bf16", "cuda")
    with pytest.raises(AnswerNo, match="bf16 with zero 0"):
        refuse(spec(engine="deepspeed"), Layout(dp_shard=2, zero=0), "bf16", "cuda")


@pytest.mark.parametrize(
    ("layout", "offload", "words"),
    [
        (Layout(dp_replicate=2), {"optimizer": "cpu"}, "dp_shard: 2 or more"),
        (Layout(dp_shard=2, zero=3), {"parameters": "cpu"}, "offload.optimizer: cpu"),
        (Layout(dp_shard=2, zero=2), {"optimizer": "cpu", "parameters": "cpu"}, "zero: 3"),
        (Layout(dp_shard=2, zero=3, tp=2), {"optimizer": "cpu"}, "tp: 1"),
    ],
)
def test_offload_is_refused_where_it_would_do_nothing_or_is_not_proved(
    layout: Layout, offload: dict[str, str], words: str
) -> None:
    with pytest.raises(AnswerNo, match=words):
        refuse_unsupported(spec(offload=offload), layout)


def test_offload_is_taken_where_state_is_sharded() -> None:
    refuse_unsupported(spec(offload={"optimizer": "cpu", "parameters": "cpu"}), Layout(dp_shard=2, zero=3))
    refuse_unsupported(spec(), Layout(tp=2, pp=2))


def scaler(**values: Any) -> Any:
    """DeepSpeed's dynamic scale, by the attributes that it has."""
    own = {"dynamic": True, "cur_scale": 1024.0, "min_scale": 1.0, "cur_iter": 0, "last_overflow_iter": -1}
    return SimpleNamespace(
        **{**own, "cur_hysteresis": 2, "delayed_shift": 2, "raise_error_at_min_scale": True, **values}
    )


def test_the_engines_loss_scale_goes_on_where_it_stopped() -> None:
    before = EngineScale(scaler(cur_scale=256.0, cur_iter=90, last_overflow_iter=40, cur_hysteresis=1))
    saved = before.state()
    assert (saved["value"], saved["good_steps"]) == (256.0, 49)
    again = scaler()
    EngineScale(again).load(saved)
    assert (again.cur_scale, again.cur_iter - again.last_overflow_iter - 1, again.cur_hysteresis) == (256.0, 49, 1)
    native = LossScale(True)
    native.load(saved)
    assert (native.value, native.good_steps) == (256.0, 49)


def test_an_overflow_is_not_the_scales_fault_once_it_cannot_fall() -> None:
    assert not EngineScale(scaler()).at_bottom
    assert EngineScale(scaler(cur_scale=1.0)).at_bottom
    assert EngineScale(SimpleNamespace(dynamic=False)).at_bottom
