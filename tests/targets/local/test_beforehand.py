"""A script that cannot be started is told before a supervisor, torchrun and its ranks are."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan
from trainwright.runs.folder import list_runs
from trainwright.spec.load import spec_from_values
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.targets.local.beforehand import refuse_broken_script
from trainwright.targets.local.target import Local


def own(script: Path) -> RunSpec:
    return spec_from_values({"name": "own", "train": {"script": str(script)}})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"train\.py: train\.script: no such file"),
        (b"x = 1\ndef (\n", r"train\.py:2:5: train\.script: is no Python: invalid syntax"),
        (b"x = 1\0", r"train\.py.*is no Python: .*null"),
        (b"\xff = 1", r"train\.py.*is no Python"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "train.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        refuse_broken_script(own(path))


def test_submit_refuses_it(tmp_path: Path) -> None:
    spec = own(tmp_path / "train.py")
    plan = Plan(spec_sha256=spec.sha256, layout=Layout(), machine="test")
    Local().render(plan, spec, Site(), {}).write(tmp_path / "bundle")
    with pytest.raises(InputError, match="no such file"):
        Local().submit(tmp_path / "bundle", runs=tmp_path / "runs")
    assert list_runs(tmp_path / "runs") == []


@pytest.mark.parametrize("name", ["train.py", "train.pyz", "package"])
def test_what_python_may_start_passes_and_is_not_run(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "package":
        path.mkdir()
    else:
        path.write_text("raise SystemExit(3)\n")
    refuse_broken_script(own(path))
