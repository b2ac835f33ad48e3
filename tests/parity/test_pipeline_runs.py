"""Runs in stages: resumed and stopped as runs without them. test_resume_matrix moves them to other layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity import checks
from parity.pool import CaseFailed, Pool
from training.tiny import broken_model, llama_config, make_run, write_model

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four blocks, so that two ranks may have two stages each."""
    return write_model(tmp_path_factory.mktemp("deep") / "model", llama_config(num_hidden_layers=4))


@pytest.mark.parametrize(
    ("layout", "fields"),
    [
        ({"pp": 2, "micro_batches": 4}, {}),
        ({"pp": 2, "micro_batches": 4, "schedule": "interleaved"}, {"method": "lora", "lora": {"dropout": 0.2}}),
    ],
    ids=["1f1b", "interleaved, adapters with dropout"],
)
def test_a_run_in_stages_is_resumed_bit_for_bit(
    two: Pool, tmp_path: Path, deep_model: Path, tiny_text: Path, layout: dict[str, Any], fields: dict[str, Any]
) -> None:
    checks.resume_is_exact(two, tmp_path, deep_model, tiny_text, layout, **fields)


def test_every_stage_stops_at_a_step_that_is_not_finite(two: Pool, tmp_path: Path, tiny_text: Path) -> None:
    layout = {"pp": 2, "micro_batches": 2}
    run = make_run(tmp_path / "tiny-00000001", broken_model(tmp_path / "model"), tiny_text, layout=layout)
    with pytest.raises(CaseFailed, match=r"NonFinite: the loss of step 1 is not finite; its samples: ([^;]*; ){3}\d"):
        two.run("parity.cases:train_run", str(run.root), 1)
    assert not list(run.checkpoints.glob("step-*"))
