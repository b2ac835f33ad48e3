from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from trainwright.cli import main
from trainwright.data import prepared
from trainwright.data.prepared import PreparedData
from trainwright.spec.model import RunSpec
from trainwright.spec.write import to_yaml


@pytest.fixture
def run_folder(make_spec: Callable[..., RunSpec], write_jsonl: Callable[..., Path], tmp_path: Path) -> Path:
    spec = make_spec(write_jsonl([{"text": f"row {n}"} for n in range(20)]))
    folder = tmp_path / "runs" / "t-01234567"
    folder.mkdir(parents=True)
    (folder / "spec.yaml").write_text(to_yaml(spec.to_dict()))
    return folder


def code_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return int(caught.value.code or 0)


def test_a_run_folder_gets_a_record_of_its_data(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("prepare", str(run_folder)) == 0
    record = json.loads((run_folder / "data.json").read_text())
    data = PreparedData.of_run(run_folder / "data.json")
    assert data.folder.parent == run_folder.parent / "data"
    assert record["train"]["documents"] + record["eval"]["documents"] == 20
    assert record["digest"] == data.manifest.digest
    said = capsys.readouterr().out
    assert "documents" in said
    assert str(data.folder) in said


def test_a_spec_file_is_prepared_where_its_runs_will_look(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = yaml.safe_load((run_folder / "spec.yaml").read_text())
    spec = tmp_path / "run.yaml"
    spec.write_text(yaml.safe_dump({**values, "storage": str(tmp_path / "runs")}))
    assert code_of("prepare", str(spec), "--output", "json", "--set", "data.eval_fraction=0") == 0
    printed = json.loads(capsys.readouterr().out)
    assert Path(printed["folder"]).parent == tmp_path / "runs" / "data"
    assert printed["eval"]["documents"] == 0


def test_a_damaged_file_is_made_anew_before_anything_trains_on_it(run_folder: Path) -> None:
    assert code_of("prepare", str(run_folder)) == 0
    folder = PreparedData.of_run(run_folder / "data.json").folder
    tokens = next(folder.glob("train-*.tokens"))
    good = tokens.read_bytes()
    tokens.write_bytes(b"\0" * len(good))
    assert code_of("prepare", str(run_folder)) == 0
    assert tokens.read_bytes() == good


def test_verify_names_a_damaged_file_of_data_too_large_to_be_read_each_time(
    run_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "VERIFY_BYTES", 0)
    assert code_of("prepare", str(run_folder), "--verify") == 0
    folder = PreparedData.of_run(run_folder / "data.json").folder
    tokens = next(folder.glob("train-*.tokens"))
    before = tokens.stat()
    tokens.write_bytes(b"\0" * before.st_size)
    os.utime(tokens, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a disk that decays, not a program that writes
    assert code_of("prepare", str(run_folder), "--verify") == 1
    assert f"{tokens.name} has another hash than was written" in capsys.readouterr().err


def test_a_run_with_a_checkpoint_keeps_the_data_that_it_began_with(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of("prepare", str(run_folder)) == 0
    before = json.loads((run_folder / "data.json").read_text())
    (run_folder / "checkpoints" / "step-00000020").mkdir(parents=True)
    (run_folder / "checkpoints" / "step-00000020" / "manifest.json").write_text("{}")
    rows = Path(yaml.safe_load((run_folder / "spec.yaml").read_text())["data"]["sources"][0]["path"])
    rows.write_text(rows.read_text() + '{"text": "one more"}\n')
    assert code_of("prepare", str(run_folder)) == 0
    assert json.loads((run_folder / "data.json").read_text()) == before
    next(Path(before["folder"]).glob("train-*.tokens")).unlink()
    assert code_of("prepare", str(run_folder)) == 1
    said = capsys.readouterr().err
    assert f"the data of {run_folder.name} changed since it began (rows.jsonl)" in said
    assert "--fresh" in said
    assert json.loads((run_folder / "data.json").read_text()) == before


def test_bad_data_is_exit_code_two_and_no_traceback(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = yaml.safe_load((run_folder / "spec.yaml").read_text())
    Path(spec["data"]["sources"][0]["path"]).write_text("{oops\n")
    assert code_of("prepare", str(run_folder)) == 2
    said = capsys.readouterr().err
    assert "rows.jsonl:1: is no JSON" in said
    assert "Traceback" not in said
