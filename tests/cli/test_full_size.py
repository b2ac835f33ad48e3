"""The strategies at full size, which no test machine runs: planned, rendered and linted."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright import api
from trainwright.targets.kubernetes.render import KINDS

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "full-size"
SPECS = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_full_size_spec_fits_and_renders_without_a_finding(path: Path, tmp_path: Path) -> None:
    loaded = api.load(path, site=FOLDER / "cluster.yml")
    plan = api.plan(loaded)
    assert plan.ranks, "it fits"
    forced = loaded.spec.parallelism.model_dump(exclude_none=True, exclude_defaults=True)
    laid_out = plan.layout.to_dict()
    assert {name: laid_out[name] for name in forced if name in laid_out} == {
        k: v for k, v in forced.items() if k in laid_out
    }
    assert plan.layout.world_size == 8 * loaded.spec.compute.nodes
    for target in ("slurm", *KINDS):
        api.render(loaded, plan, target).write(tmp_path / target)
    assert [finding for finding in api.lint([tmp_path]) if finding.severity != "note"] == []


def test_every_strategy_of_the_table_has_a_full_size_twin() -> None:
    stated = "\n".join(path.read_text() for path in SPECS)
    for word in (
        "tp:",
        "sequence_parallel:",
        "pp:",
        "cp:",
        "ep:",
        "zero: 1",
        "zero: 2",
        "zero: 3",
        "engine: deepspeed",
    ):
        assert word in stated
