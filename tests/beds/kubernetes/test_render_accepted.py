"""Every kind that we render is accepted by a real API server: strict about fields, with every webhook that runs.

Nothing is started: the server is asked for a dry run. A TrainJob needs its runtime, which is made and taken away.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes_bed import Bed
from kubernetes_specs import own_script, plan_of, site_of, spec_of

from trainwright.spec.load import load
from trainwright.spec.model import RunSpec
from trainwright.targets.bundle import Bundle
from trainwright.targets.kubernetes.render import KINDS, render

HOSTILE = {"A": 'x: "y" #\n$(B) $$ \\ \t é', "B": "'", "C": "- ? : {}[]", "D": " lead and trail "}
SPECS: dict[str, tuple[RunSpec, int]] = {
    "two-p4d": (spec_of(evaluate={"samples": ["Once"]}, env=HOSTILE), 16),
    "own-script": (own_script(train={"script": "/shared/a b'\".py", "args": ["$(X)", "\n", ""]}), 2),
    "one-g5": (spec_of(compute={"instance": "g5.xlarge", "nodes": 1}, global_batch_size=8), 1),
    "trainium": (spec_of(compute={"instance": "trn1.32xlarge", "nodes": 4}, global_batch_size=128), 128),
    "longest-name": (spec_of(name="7" + "x" * 29, secrets={"HF_TOKEN": {"kubernetes": "hf/token"}}), 16),
}


def _accepted(bed: Bed, bundle: Bundle, folder: Path) -> None:
    bundle.write(folder)
    files = [file for file in bundle.files if file.apply_order or file.path == "raycluster.yaml"]
    for file in sorted(files, key=lambda file: file.apply_order):
        apply = ("apply", "--server-side", "--validate=strict", "-f", str(folder / file.path))
        if file.path == "runtime.yaml":
            bed.kubectl(*apply)
        bed.kubectl(*apply, "--dry-run=server")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", SPECS)
def test_every_kind_is_accepted(kubernetes: Bed, namespace: str, kind: str, case: str, tmp_path: Path) -> None:
    spec, world = SPECS[case]
    _accepted(kubernetes, render(kind, plan_of(spec, world), spec, site_of(namespace=namespace), {}), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_example_is_accepted(
    kubernetes: Bed, namespace: str, kind: str, tmp_path: Path, repository: Path
) -> None:
    for example in sorted((repository / "examples").glob("*/*.yaml")):
        spec = load(example, ["image=registry.example.com/train:1.4"]).spec
        processes = spec.compute.processes_per_node
        plan = plan_of(spec, processes if isinstance(processes, int) else 1)
        bundle = render(kind, plan, spec, site_of(namespace=namespace), {})
        _accepted(kubernetes, bundle, tmp_path / example.parent.name / example.stem)
