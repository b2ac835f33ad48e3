"""Which base model a run began with: a commit of the Hub, or a hash of what training reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.data import locate, run_inputs
from trainwright.data.base_model import BaseModel, identify, pin
from trainwright.runs.folder import RunFolder
from trainwright.runs.progress import silent
from trainwright.spec.load import spec_from_values
from trainwright.spec.model import Model
from trainwright.spec.write import spec_to_yaml

COMMIT, LATER = "0123456789abcdef" * 2 + "01234567", "f" * 40


def snapshot(root: Path, commit: str) -> Path:
    folder = root / "models--owner--name" / "snapshots" / commit
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


def test_a_model_on_the_hub_is_known_by_its_commit(tmp_path: Path) -> None:
    model = Model(path="owner/name", revision="main")
    assert identify(model, snapshot(tmp_path, COMMIT), tmp_path / "m") == BaseModel("owner/name", revision=COMMIT)


@pytest.mark.parametrize(("name", "from_scratch", "counts"), [
    ("config.json", False, True), ("model.safetensors", False, True), ("model.safetensors.index.json", False, True),
    ("README.md", False, False), ("config.json", True, True), ("model.safetensors", True, False),
])  # fmt: skip
def test_a_folder_is_known_by_what_training_reads(
    tmp_path: Path, name: str, from_scratch: bool, counts: bool
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in ("config.json", "model.safetensors", "model.safetensors.index.json", "README.md"):
        (folder / file).write_text("{}")
    model = Model(path=str(folder), from_scratch=from_scratch)
    before = identify(model, folder, tmp_path / "m")
    assert identify(model, folder, tmp_path / "m") == before
    (folder / name).write_text("{ }")
    assert (identify(model, folder, tmp_path / "m") != before) == counts


def test_a_branch_that_moved_on_moves_nothing_in_a_run_that_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    head = [COMMIT]

    def download(repository: str, revision: str | None = None, token: str | None = None) -> Path:
        asked.append(revision)
        return snapshot(tmp_path, revision or head[0])

    monkeypatch.setattr(locate.hub, "download", download)
    monkeypatch.setattr(run_inputs, "prepare", lambda spec, cache, progress: _Prepared(tmp_path))
    monkeypatch.setattr(run_inputs, "_kept", lambda known: _Prepared(tmp_path) if known else None)
    monkeypatch.setattr(run_inputs, "record", lambda prepared: {"digest": prepared.manifest.digest, "folder": "x"})
    run = RunFolder(tmp_path / "runs" / "t-00000001")
    run.root.mkdir(parents=True)
    spec = spec_from_values({"name": "t", "model": "owner/name", "data": {"sources": ["./x"]}})
    run.spec_file.write_text(spec_to_yaml(spec))
    run_inputs.prepare_run(run, silent)
    assert run_inputs.base_of(run) == BaseModel("owner/name", revision=COMMIT)
    head[0] = LATER
    (run.checkpoints / "step-00000002").mkdir(parents=True)
    (run.checkpoints / "step-00000002" / "manifest.json").write_text("{}")
    run_inputs.prepare_run(run, silent)
    assert asked == [None, COMMIT]
    found = run_inputs.pinned(run, spec).model
    assert found is not None
    assert found.revision == COMMIT
    assert pin(spec, BaseModel("other/name", revision=LATER)) == spec


class _Prepared:
    """Prepared data, as far as the record of a run needs it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = type("Manifest", (), {"digest": "d"})()
