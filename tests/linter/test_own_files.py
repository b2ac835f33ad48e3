"""What trainwright itself writes and ships has nothing to find: examples, and bundles as they are rendered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainwright.linter.configuration import read_config
from trainwright.linter.engine import Options, lint_files, lint_paths
from trainwright.linter.files import load_files
from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan, RankBytes, RankClass, StepSeconds
from trainwright.spec.load import spec_from_values
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.targets import REGISTRY
from trainwright.targets import get as target

STRICT = Options(strict=True)


def spec_of(**fields: Any) -> RunSpec:
    values = {
        "name": "demo",
        "model": "gpt2",
        "data": {"sources": ["/data/text"]},
        "global_batch_size": 16,
        "compute": {"instance": "p4d.24xlarge", "nodes": 2},
        "storage": "/shared/runs",
        **fields,
    }
    return spec_from_values({name: value for name, value in values.items() if value is not None})


OWN = {"train": {"script": "/home/ada/train.py", "args": ["--lr", "1e-3"]}, "model": None, "data": None}
SPECS = {
    "two-p4d": spec_of(register="demo", evaluate={"samples": ["Once"]}),
    "two-p5": spec_of(compute={"instance": "p5.48xlarge", "nodes": 2}, env={"NCCL_DEBUG": "WARN"}),
    "one-node": spec_of(compute={"instance": "p4d.24xlarge", "nodes": 1}, method="lora"),
    "own-script": spec_of(**OWN, global_batch_size=2, compute={"nodes": 2, "processes_per_node": 1}),
}
SITE = Site.model_validate(
    {
        "name": "cluster",
        "slurm": {"cluster": "hpc", "partition": "gpu", "cpu_partition": "cpu", "time_limit": "24h"},
        "kubernetes": {"claims": [{"name": "fsx", "path": "/shared"}]},
    }
)


def plan_of(spec: RunSpec) -> Plan:
    world = spec.compute.nodes * 8
    return Plan(
        spec_sha256=spec.sha256,
        layout=Layout(dp_replicate=world),
        machine=f"{spec.compute.nodes} × {spec.compute.instance}",
        ranks=(RankClass(0, RankBytes(weights=250_000_000, optimizer=1_000_000_000, master=500_000_000)),),
        step_seconds=StepSeconds(compute=0.4),
        hours=2.0,
    )


def test_the_examples_are_clean(repository: Path) -> None:
    found = [f for f in lint_paths([repository / "examples"], STRICT) if f.severity != "note"]
    assert found == []


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "local"])
@pytest.mark.parametrize("spec", SPECS)
def test_rendered_bundles_are_clean(name: str, spec: str, tmp_path: Path) -> None:
    run = SPECS[spec]
    if name != "slurm":
        run = run.model_copy(update={"image": "registry.example.com/train:1.2"})
    bundle = target(name).render(plan_of(run), run, SITE, {})
    bundle.write(tmp_path / "bundle")
    found = [f for f in lint_paths([tmp_path / "bundle"], STRICT) if f.severity != "note"]
    assert [(f.rule, f.path, f.line, f.why) for f in found] == []


def test_a_mistake_in_a_spec_is_found_at_its_place(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("version: 1\nname: demo\nmodel: gpt2\ndata: {sources: [/data/text]}\nprecision: fp8\nseed: x\n")
    found = lint_paths([path], STRICT)
    assert [(f.rule, f.line) for f in found] == [("TW007", 5), ("TW007", 6)]
    assert "bf16" in found[0].instead


def test_the_manifest_of_prepared_data_is_no_spec(tmp_path: Path) -> None:
    """It has `train` and two names of spec fields; `lint .` beside a finished run must not read it as a spec."""
    manifest = {"digest": "09ad", "objective": "causal", "sequence_length": 256, "train": {"rows": 0}, "v": 1}
    written = tmp_path / "runs" / "data" / "09ad" / "manifest.json"
    written.parent.mkdir(parents=True)
    written.write_text(json.dumps({**manifest, "checksum": "9c3a"}))
    assert lint_paths([str(tmp_path)], STRICT) == []


def test_the_repository_is_clean_by_its_own_configuration() -> None:
    root = Path(__file__).parents[2]
    config = read_config(root / "pyproject.toml")
    assert config.excludes(str(root / "src/trainwright/linter/rules/TW101_nnodes_not_nodes.md"))
    assert lint_files(list(load_files([root], config.excludes)), STRICT) == []
