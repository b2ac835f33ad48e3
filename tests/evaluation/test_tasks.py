"""Tasks: scores that can be checked by hand, on a model made of a table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import InputError
from trainwright.evaluation.tasks import check_task_files, joined, run_task
from trainwright.spec.model import Task


class Table:
    """Scores and answers from dictionaries; a text's tokens are its words."""

    def __init__(self, scores: dict[tuple[str, str], float] | None = None, answers: dict[str, str] | None = None):
        self.scores, self.answers = scores or {}, answers or {}
        self.asked_tokens = 0

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]], progress: Callable[[int, int], None]) -> list[float]:
        progress(len(pairs), len(pairs))
        return [self.scores[pair] for pair in pairs]

    def complete(
        self, prompts: Sequence[Any], max_new_tokens: int, progress: Callable[[int, int], None]
    ) -> list[str]:
        self.asked_tokens = max_new_tokens
        return [self.answers[p if isinstance(p, str) else p[-1]["content"]] for p in prompts]

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def jsonl(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_multiple_choice_picks_the_likeliest_choice(tmp_path: Path) -> None:
    rows = jsonl(
        tmp_path / "choices.jsonl",
        {"question": "Two and two is", "choices": ["four", "a very long five"], "answer": 0},
        {"question": "Grass is", "choices": ["blue", "green"], "answer": "green"},
    )
    table = Table(
        {
            ("Two and two is", " four"): -8.0, ("Two and two is", " a very long five"): -9.0,
            ("Grass is", " blue"): -1.0, ("Grass is", " green"): -3.0,
        }
    )  # fmt: skip
    seen: list[tuple[str, int, int]] = []
    result = run_task(Task(name="sums", kind="multiple_choice", path=rows), table, lambda *call: seen.append(call))
    assert (result.score, result.rows, result.metric) == (0.5, 2, "accuracy")
    assert result.standard_error == pytest.approx(math.sqrt(0.25 / 2))
    # Per byte: 8/4 = 2 against 9/16 picks the long one; 1/4 against 3/5 picks blue.
    assert result.also == {"accuracy_per_byte": 0.0}
    assert result.examples[1] == {"prompt": "Grass is", "wanted": "green", "given": "blue", "correct": False}
    assert seen == [("sums", 4, 4)]


def test_a_tie_or_a_nan_is_not_a_right_answer(tmp_path: Path) -> None:
    rows = jsonl(
        tmp_path / "t.jsonl",
        {"question": "q", "choices": ["a", "b"], "answer": 0},
        {"question": "r", "choices": ["a", "b"], "answer": 0},
    )
    table = Table({("q", " a"): -1.0, ("q", " b"): -1.0, ("r", " a"): math.nan, ("r", " b"): math.nan})
    assert run_task(Task(name="t", kind="multiple_choice", path=rows), table).score == 0.0


def test_exact_match_reads_one_line_and_ignores_white_space(tmp_path: Path) -> None:
    rows = jsonl(
        tmp_path / "answers.jsonl",
        {"prompt": "2+2=", "answer": "4"},
        {"prompt": "capital of France?", "answer": ["Paris", "paris"]},
        {"messages": [{"role": "user", "content": "say two lines"}], "answer": "one\ntwo"},
        {"prompt": "near?", "answer": "yes"},
    )
    table = Table(
        answers={"2+2=": " 4\nand more", "capital of France?": "paris", "say two lines": "one\ntwo ", "near?": "yes."}
    )
    result = run_task(Task(name="t", kind="exact_match", path=rows), table)
    assert [example["correct"] for example in result.examples] == [True, True, True, False]
    assert result.score == 0.75
    assert table.asked_tokens == 2 + 8, "as many tokens as the longest right answer, and a few to stop in"


def test_limit_reads_the_first_rows_only(tmp_path: Path) -> None:
    rows = jsonl(tmp_path / "a.jsonl", {"prompt": "x", "answer": "1"}, "broken")
    assert run_task(Task(name="t", kind="exact_match", path=rows, limit=1), Table(answers={"x": "1"})).score == 1.0


@pytest.mark.parametrize(
    ("question", "choice", "expected"),
    [("Sky is", "blue", " blue"), ("Sky is ", "blue", "blue"), ("Sky is", " blue", " blue"), ("a\n", "b", "b")],
)
def test_a_choice_follows_after_exactly_one_space(question: str, choice: str, expected: str) -> None:
    assert joined(question, choice) == expected


def test_every_bad_row_is_named_by_line_with_what_would_be_right(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(
        '{"question": "q", "choices": ["a", "b"], "answer": 1}\n'
        "\n"
        "not json\n"
        "[1]\n"
        '{"query": "q", "choices": ["a", "b"], "answer": 0}\n'
        '{"question": "q", "choices": ["a"], "answer": 0}\n'
        '{"question": "q", "choices": ["a", "b"], "answer": 2}\n'
        '{"question": "q", "choices": ["a", "b"], "answer": true}\n'
        '{"question": "q", "choices": ["a", "b"]}\n'
    )
    with pytest.raises(InputError) as caught:
        run_task(Task(name="t", kind="multiple_choice", path=str(path)), Table())
    assert [(p.line, p.field) for p in caught.value.problems] == [
        (3, ""), (4, ""), (5, "question"), (6, "choices"), (7, "answer"), (8, "answer"), (9, "answer"),
    ]  # fmt: skip
    text = str(caught.value)
    assert 'question: is missing; write "question": "some text"; the row has query, choices, answer' in text
    assert "answer: is 2; write a number from 0 to 1, or one of the choices" in text


def test_many_bad_rows_are_counted_not_all_listed(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "bad.jsonl", *[[n] for n in range(25)])
    with pytest.raises(InputError, match="has 15 more bad rows"):
        run_task(Task(name="t", kind="exact_match", path=path), Table())


@pytest.mark.parametrize("content", [None, "", "\n\n"])
def test_missing_or_empty_files_are_input_errors(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=r"rows\.jsonl: (cannot be read|holds no rows)"):
        run_task(Task(name="t", kind="exact_match", path=str(path)), Table())


def test_all_task_files_can_be_checked_before_training(tmp_path: Path) -> None:
    good = jsonl(tmp_path / "good.jsonl", {"prompt": "x", "answer": "1"})
    bad = jsonl(tmp_path / "bad.jsonl", {"question": "q"}, {"question": "q"})
    tasks = [
        Task(name="good", kind="exact_match", path=good),
        Task(name="bad", kind="multiple_choice", path=bad),
        Task(name="gone", kind="exact_match", path=str(tmp_path / "gone.jsonl")),
        Task(name="arc_easy", kind="lm_eval"),
    ]
    check_task_files(tasks[:1])
    with pytest.raises(InputError) as caught:
        check_task_files(tasks)
    assert [(Path(p.path).name, p.line) for p in caught.value.problems] == [
        ("bad.jsonl", 1), ("bad.jsonl", 2), ("gone.jsonl", 0),
    ]  # fmt: skip
