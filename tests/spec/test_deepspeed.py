"""DeepSpeed's JSON comes from the spec; a user's own adds to it and cannot contradict it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import InputError
from trainwright.models.layout import Layout
from trainwright.planner.explicit import plan_local
from trainwright.spec.deepspeed import deepspeed_config
from trainwright.spec.load import load, spec_from_values
from trainwright.spec.model import RunSpec

LAYOUT = Layout(dp_shard=2, zero=3, micro_batch_size=1, micro_batches=32)
#: The keys of a guide's file for stage 3 with everything offloaded.
GUIDE: dict[str, Any] = {
    "bf16": {"enabled": True},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "offload_param": {"device": "cpu", "pin_memory": True},
        "overlap_comm": True,
        "contiguous_gradients": True,
        "sub_group_size": 1e9,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
        "stage3_max_live_parameters": 1e9,
        "stage3_max_reuse_distance": 1e9,
        "stage3_gather_16bit_weights_on_model_save": True,
    },
    "gradient_accumulation_steps": 32,
    "gradient_clipping": 1.0,
    "train_micro_batch_size_per_gpu": 1,
    "wall_clock_breakdown": False,
    "communication_data_type": "bf16",
}


def spec(**fields: Any) -> RunSpec:
    values = {
        "name": "x", "model": "/m", "data": {"sources": ["/d"]}, "global_batch_size": 64, "engine": "deepspeed",
        "offload": {"optimizer": "cpu", "parameters": "cpu"}, **fields,
    }  # fmt: skip
    return spec_from_values(values)


def refused(own: dict[str, Any], layout: Layout = LAYOUT, **fields: Any) -> dict[str, str]:
    with pytest.raises(InputError) as caught:
        deepspeed_config(spec(deepspeed=own, **fields), layout, "bf16", 64)
    return {problem.field: f"{problem.what}; {problem.instead}" for problem in caught.value.problems}


def test_the_batch_is_the_layouts() -> None:
    config = deepspeed_config(spec(), LAYOUT, "bf16", 64)
    sizes = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    assert [config[name] for name in sizes] == [64, 1, 32]
    assert config["train_batch_size"] == 1 * 32 * LAYOUT.data_parallel
    assert config["bf16"] == {"enabled": True}
    assert config["zero_optimization"]["stage"] == 3
    assert config["optimizer"]["params"]["torch_adam"] is True


def test_every_key_of_a_guides_file_is_taken_and_every_auto_resolved() -> None:
    config = deepspeed_config(spec(deepspeed=GUIDE), LAYOUT, "bf16", 64)
    zero = config["zero_optimization"]
    assert "auto" not in json.dumps(config)
    assert (zero["reduce_bucket_size"], zero["stage3_prefetch_bucket_size"]) == (4096, 3686)
    assert zero["stage3_param_persistence_threshold"] == 640
    assert set(GUIDE) <= set(config)
    assert set(GUIDE["zero_optimization"]) <= set(zero)


def test_auto_of_what_the_spec_says_is_the_specs() -> None:
    own = {"train_batch_size": "auto", "gradient_clipping": "auto", "optimizer": {"params": {"lr": "auto"}}}
    config = deepspeed_config(spec(deepspeed=own, clip=0.5, optimizer={"lr": 1e-3}), LAYOUT, "bf16", 64)
    assert (config["train_batch_size"], config["gradient_clipping"]) == (64, 0.5)
    assert config["optimizer"]["params"]["lr"] == 1e-3


def test_a_file_that_contradicts_the_command_line_that_came_with_it_is_named() -> None:
    # one micro-batch of one sequence, accumulated 8 times by the arguments and 32 times by the file, on two ranks
    problems = refused(GUIDE, LAYOUT.with_(micro_batches=8), global_batch_size=16)
    assert set(problems) == {"gradient_accumulation_steps"}
    assert problems["gradient_accumulation_steps"].startswith("is 32, but by the spec's")
    assert "it is 8" in problems["gradient_accumulation_steps"]


def test_every_contradiction_is_named_at_once() -> None:
    problems = refused(GUIDE, LAYOUT.with_(micro_batches=4, zero=2), global_batch_size=8, clip=0.5, offload={})
    assert set(problems) == {
        "gradient_accumulation_steps", "gradient_clipping", "zero_optimization.stage",
        "zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device",
    }  # fmt: skip
    assert problems["gradient_accumulation_steps"].startswith("is 32, but by the spec's global_batch_size")
    assert "it is 4" in problems["gradient_accumulation_steps"]


@pytest.mark.parametrize(
    ("own", "field", "text"),
    [
        ({"gradient_clippping": 1.0}, "gradient_clippping", "did you mean gradient_clipping"),
        ({"zero_optimization": {"overlap_com": True}}, "zero_optimization.overlap_com", "overlap_comm"),
        ({"scheduler": {"type": "WarmupLR"}}, "scheduler", "the spec's schedule sets the rate"),
        ({"fp16": {"enabled": True}}, "fp16.enabled", "precision"),
        ({"optimizer": {"type": "Lamb"}}, "optimizer.type", "optimizer.name"),
        ({"steps_per_print": "auto"}, "steps_per_print", "nothing says what that is"),
        ({"zero_optimization": 3}, "zero_optimization", "is not a section"),
        (
            {"zero_optimization": {"round_robin_gradients": True}},
            "zero_optimization.round_robin_gradients",
            "wrong parts",
        ),
    ],
)
def test_what_cannot_stand_is_refused_with_the_reason(own: dict[str, Any], field: str, text: str) -> None:
    assert text in refused(own)[field]


def test_nvme_needs_the_folder_that_only_the_user_knows() -> None:
    fields = {"offload": {"optimizer": "nvme", "parameters": "none"}}
    assert set(refused({}, **fields)) == {"zero_optimization.offload_optimizer.nvme_path"}
    own = {"zero_optimization": {"offload_optimizer": {"nvme_path": "/local_nvme"}}, "aio": {"thread_count": 4}}
    config = deepspeed_config(spec(deepspeed=own, **fields), LAYOUT, "bf16", 64)
    assert config["zero_optimization"]["offload_optimizer"] == {
        "device": "nvme", "pin_memory": True, "nvme_path": "/local_nvme",
    }  # fmt: skip


def test_a_plan_finds_what_the_run_would_stop_at(tmp_path: Path) -> None:
    own = {"gradient_accumulation_steps": 3, "zero_optimization": {"overlap_com": True}, "bf16": {"enabled": True}}
    text = (
        "name: x\nmodel: ./m\ndata: {sources: [./d]}\nengine: deepspeed\nglobal_batch_size: 8\nmicro_batch_size: 2\n"
        "parallelism: {dp_shard: 2, zero: 3}\ncompute: {processes_per_node: 2}\noffload: {optimizer: nvme}\n"
        f"deepspeed: {json.dumps(own)}\n"
    )
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        plan_local(load(tmp_path / "run.yaml"))
    assert {problem.field for problem in caught.value.problems} == {
        "deepspeed.gradient_accumulation_steps", "deepspeed.zero_optimization.overlap_com",
        "deepspeed.zero_optimization.offload_optimizer.nvme_path",
    }  # fmt: skip
    assert {problem.line for problem in caught.value.problems} == {10}


def test_a_file_becomes_part_of_the_spec(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(GUIDE))
    text = "name: x\nmodel: ./m\ndata: {sources: [./d]}\nengine: deepspeed\ndeepspeed: ds.json\n"
    (tmp_path / "run.yaml").write_text(text)
    assert load(tmp_path / "run.yaml").spec.deepspeed == GUIDE
    (tmp_path / "run.yaml").write_text(text.replace("engine: deepspeed\n", ""))
    with pytest.raises(InputError, match=r"run.yaml:4:\d+: deepspeed: is set but engine is native"):
        load(tmp_path / "run.yaml")
    for broken, why in (("ds2.json", "cannot be read"), ("bad.json", "is not JSON")):
        (tmp_path / "bad.json").write_text("{")
        (tmp_path / "run.yaml").write_text(text.replace("ds.json", broken))
        with pytest.raises(InputError, match=why):
            load(tmp_path / "run.yaml")
