"""A step that is not finite is told alike by all ranks, with the samples of all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.pool import CaseFailed, Pool
from training.tiny import broken_model, make_run


@pytest.mark.parametrize("layout", [{"dp_replicate": 2}, {"dp_shard": 2}], ids=["ddp", "zero 3"])
def test_every_rank_stops_and_names_the_samples_of_all_ranks(
    two: Pool, tmp_path: Path, tiny_text: Path, layout: dict[str, int]
) -> None:
    run = make_run(tmp_path / "tiny-00000001", broken_model(tmp_path / "model"), tiny_text, layout=layout)
    with pytest.raises(CaseFailed, match=r"NonFinite: the loss of step 1 is not finite; its samples: ([^;]*; ){3}\d"):
        two.run("parity.cases:train_run", str(run.root), 1)
    assert not list(run.checkpoints.glob("step-*"))
