"""lm-eval as a task source: own tasks offline, and what is said when something is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import InputError, MissingExtra
from trainwright.evaluation.lm_eval_source import _result, run_lm_eval
from trainwright.spec.model import Task

TASK = """
task: colours
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
"""


def test_without_lm_eval_the_extra_is_named(language_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lm_eval", None)
    with pytest.raises(MissingExtra, match=r"trainwright\[lm-eval\]"):
        run_lm_eval(Task(name="arc_easy", kind="lm_eval"), language_model)


def test_the_preferred_metric_is_the_score_and_the_rest_is_kept() -> None:
    values = {
        "alias": "t",
        "acc_norm,none": 0.5,
        "acc,none": 0.25,
        "acc_stderr,none": 0.1,
        "acc_norm_stderr,none": "-",
    }
    found = {"results": {"t": values}, "n-samples": {"t": {"original": 10, "effective": 4}}}
    result = _result(Task(name="t", kind="lm_eval"), found)
    assert (result.score, result.metric, result.standard_error, result.rows) == (0.25, "acc", 0.1, 4)
    assert result.also == {"acc_norm": 0.5}


@pytest.fixture
def own_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("lm_eval")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    rows = tmp_path / "rows.jsonl"
    made = [{"question": "the cat is", "choices": ["red", "blue"], "answer": n % 2} for n in range(6)]
    rows.write_text("".join(json.dumps(row) + "\n" for row in made))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "colours.yaml").write_text(TASK.format(rows=rows))
    return tmp_path / "tasks"


def test_own_task_files_run_offline_and_agree_with_ours(own_tasks: Path, language_model: Any) -> None:
    result = run_lm_eval(Task(name="colours", kind="lm_eval", path=str(own_tasks), limit=4), language_model)
    assert (result.metric, result.rows, result.score) == ("acc", 4, 0.5)  # the same question, each answer right twice


def test_an_unknown_task_is_an_input_error_with_the_nearest_name(own_tasks: Path, language_model: Any) -> None:
    with pytest.raises(InputError, match=r"has no task colour; did you mean colours\?"):
        run_lm_eval(Task(name="colour", kind="lm_eval", path=str(own_tasks)), language_model)
