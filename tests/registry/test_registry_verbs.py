"""The verbs of evaluation, registry and reports: what they print, and with which exit code they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.cli import main
from trainwright.runs.folder import RunFolder

pytest.importorskip("torch")
Make = Callable[..., RunFolder]
LORA = {"method": "lora", "lora": {"rank": 4}}


@pytest.fixture
def run_verb(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(list(map(str, arguments)))
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return run


def test_finish_tells_every_number_and_place(make_run: Make, run_verb: Any) -> None:
    run = make_run({5: 2.0}, **LORA, register="tiny-cat", evaluate={"gate": "eval_loss < baseline"})
    code, out, _ = run_verb("finish", run.root)
    assert code == 0
    assert "held-out loss 2.0000, perplexity 2, 9 tokens (before: 3.5000)" in out
    assert "registered: tiny-cat version 1 (latest)" in out


def test_a_refused_gate_ends_with_1_and_leaves_a_report(make_run: Make, run_verb: Any) -> None:
    pytest.importorskip("matplotlib")
    run = make_run({5: 3.9}, **LORA, register="tiny-cat", evaluate={"gate": "eval_loss < baseline"})
    code, out, err = run_verb("finish", run.root)
    assert (code, out) == (1, "")
    assert "the gate refused the model: eval_loss < baseline does not hold" in err
    assert "gate refused" in run.report.read_text()


def test_export_sample_and_register_by_hand(make_run: Make, run_verb: Any, tmp_path: Path) -> None:
    run = make_run({5: 2.0, 10: 2.5}, **LORA)
    code, out, _ = run_verb("export", run.root, "--to", tmp_path / "out", "--step", 10, "--no-merge", "-o", "json")
    assert (code, json.loads(out)["step"]) == (0, 10)
    assert (tmp_path / "out" / "adapter_config.json").is_file()
    code, out, _ = run_verb("sample", run.root, "the cat", "the mat", "--tokens", 3, "-o", "json")
    assert code == 0
    assert [item["prompt"] for item in json.loads(out)] == ["the cat", "the mat"]
    assert (run.export / "config.json").is_file(), "it was exported on the way"
    code, _, err = run_verb("register", run.root)
    assert (code, err) == (2, "register: name: is not known; write register: NAME in the spec, or say --name NAME\n")
    code, out, _ = run_verb(
        "register", run.root, "--name", "by-hand", "--alias", "best", "--registry", tmp_path / "r", "-o", "json"
    )
    told = json.loads(out)["registered"]
    assert (code, told["version"], told["aliases"]) == (0, 1, ["latest", "best"])
    assert (tmp_path / "r" / "by-hand" / "best" / "config.json").is_file()
    lineage = json.loads((tmp_path / "r" / "by-hand" / "1" / "run" / "lineage.json").read_text())
    assert lineage["run"]["spec_sha256"] == run.spec().sha256, "the run's own spec, not the one with --name"


def test_report_of_one_and_of_several(make_run: Make, run_verb: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = make_run({5: 2.0})
    code, out, _ = run_verb("report", run.root)
    assert (code, Path(out.strip())) == (0, run.report)
    code, _, err = run_verb("report", run.root, run.root)
    assert code == 2
    assert "1 runs cannot be compared" in err


def test_wrong_input_ends_with_2_and_the_way_out(make_run: Make, run_verb: Any) -> None:
    run = make_run({5: 2.0})
    code, _, err = run_verb("evaluate", run.root, "--step", 7)
    assert code == 2
    assert "holds no checkpoint of step 7; the steps are 5" in err
    code, _, err = run_verb("evaluate", run.root)
    assert code == 2
    assert "names no prepared data; run `trainwright prepare` first" in err
