"""``trainwright run`` on this machine: nothing is started for a spec whose inputs are not there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from trainwright import api
from trainwright.cli import main
from trainwright.cli.output import as_typed
from trainwright.reports.summary import summary_lines
from trainwright.runs import jsonl
from trainwright.runs.folder import RunFolder, list_runs
from trainwright.runs.state import JobState


@pytest.fixture
def tiny_model_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 128, "vocab_size": 256}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_missing_inputs_are_bad_input_and_start_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny_model_folder: Path, more: list[str]
) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text(f"name: x\nmodel: {tiny_model_folder}\ndata:\n  sources: [./none.jsonl]\n")
    with pytest.raises(SystemExit) as leave:
        main(["run", str(spec), "--runs", str(tmp_path / "runs"), *more])
    assert leave.value.code == 2
    assert f"{spec}:4:13: data.sources.0.path: {tmp_path}/none.jsonl does not exist" in capsys.readouterr().err
    assert list_runs(tmp_path / "runs") == []


def test_a_run_that_has_its_data_needs_them_no_more_unless_it_is_to_be_fresh(
    tmp_path: Path, tiny_model_folder: Path
) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text(f"name: x\nmodel: {tiny_model_folder}\ndata:\n  sources: [./none.jsonl]\n")
    loaded = api.load(spec)
    bundle = api.render(loaded, api.plan(loaded))
    assert len(api.missing(loaded, bundle, runs=tmp_path)) == 1
    run = RunFolder(tmp_path / bundle.run_id)
    run.root.mkdir()
    run.data.write_text("{}")
    assert api.missing(loaded, bundle, runs=tmp_path) == []
    assert len(api.missing(loaded, bundle, runs=tmp_path, fresh=True)) == 1


def test_commands_are_shown_as_they_can_be_typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "venv" / "bin" / "trainwright"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert as_typed("next    trainwright sample x") == "next    venv/bin/trainwright sample x"
    monkeypatch.setenv("PATH", str(program.parent))
    assert as_typed("next    trainwright sample x") == "next    trainwright sample x"


def run_of(folder: Path, duration: str, steps: int, evals: int, tokens: int) -> RunFolder:
    run = RunFolder(folder / "x-00000000")
    run.root.mkdir(parents=True)
    run.spec_file.write_text(f"name: x\nmodel: owner/name\ndata: {{sources: [owner/set]}}\nduration: {duration}\n")
    for number in range(evals):
        record = {"t": 1.0, "kind": "eval", "step": number, "eval_loss": 2.5 - number, "eval_tokens": tokens}
        jsonl.append(run.metrics, record)
    jsonl.append(run.metrics, {"t": 2.0, "kind": "step", "step": steps, "loss": 1.0})
    run.evaluation.write_text(json.dumps({"samples": []}))
    return run


def test_a_result_that_stands_on_little_says_so(tmp_path: Path) -> None:
    lines = summary_lines(run_of(tmp_path, "1 epochs", 1, 2, 12), JobState("SUCCEEDED"))
    notes = [line for line in lines if line.startswith("note")]
    assert ["one step" in notes[0], "12 tokens only" in notes[1]] == [True, True]


def test_enough_steps_and_tokens_need_no_note(tmp_path: Path) -> None:
    lines = summary_lines(run_of(tmp_path, "4 steps", 4, 2, 5000), JobState("SUCCEEDED"))
    assert not [line for line in lines if line.startswith("note")]


def test_a_loss_before_training_is_not_told_as_the_one_after(tmp_path: Path) -> None:
    lines = summary_lines(run_of(tmp_path, "4 steps", 2, 1, 5000), JobState("CANCELLED"))
    assert not [line for line in lines if "after" in line and "held-out" in line]
