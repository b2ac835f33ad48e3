"""Task evaluation: what share of a file's questions a model answers right.

Takes rows and anything that can score continuations and complete prompts; gives a score between 0 and 1 with its
standard error. Knows nothing of torch, checkpoints or gates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from trainwright.errors import InputError, Problem
from trainwright.evaluation.task_rows import AnswerRow, ChoiceRow, answer_rows, choice_rows
from trainwright.runs.progress import Progress, silent
from trainwright.spec.model import Task

Prompt = str | tuple[dict[str, str], ...]

_EXAMPLES = 5
_SPARE_TOKENS = 8


class Completer(Protocol):
    """A language model as tasks see it."""

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]], progress: Callable[[int, int], None]) -> list[float]:
        """Log-probability (nats, summed over tokens) of each continuation after its context."""
        ...

    def complete(
        self, prompts: Sequence[Prompt], max_new_tokens: int, progress: Callable[[int, int], None]
    ) -> list[str]:
        """The likeliest continuation of each prompt, token by token, without the prompt."""
        ...

    def count_tokens(self, text: str) -> int:
        """Length of a text in tokens."""
        ...


@dataclass(frozen=True)
class TaskResult:
    """Score of one task: a share between 0 and 1 for the own tasks, the source's own metric for lm-eval."""

    name: str
    kind: str
    score: float
    metric: str
    rows: int
    standard_error: float | None = None
    also: dict[str, float] = field(default_factory=dict)
    examples: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return {**asdict(self), "examples": list(self.examples)}


def run_task(task: Task, model: Completer, progress: Progress = silent) -> TaskResult:
    """Evaluate one task of the user's own file. Bad rows are an InputError that names each."""
    path = Path(task.path or "")

    def step(done: int, total: int) -> None:
        progress(task.name, done, total)

    if task.kind == "multiple_choice":
        return multiple_choice(task.name, choice_rows(path, task.limit), model, step)
    return exact_match(task.name, answer_rows(path, task.limit), model, step)


def check_task_files(tasks: Sequence[Task]) -> None:
    """Read every file that tasks name. InputError with all bad rows of all files: better now than after training."""
    problems: list[Problem] = []
    for task in tasks:
        read = {"multiple_choice": choice_rows, "exact_match": answer_rows}.get(task.kind)
        try:
            if read is not None and task.path is not None:
                read(Path(task.path), task.limit)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)


def multiple_choice(
    name: str, rows: Sequence[ChoiceRow], model: Completer, progress: Callable[[int, int], None]
) -> TaskResult:
    """Share of rows whose right choice is the likeliest continuation of the question.

    The score compares summed log-probabilities; ``accuracy_per_byte`` divides each by the choice's length in bytes
    first, which does not favour short choices. A tie counts as wrong: a model that sees no difference knows nothing.
    """
    pairs = [(row.question, joined(row.question, choice)) for row in rows for choice in row.choices]
    scores = iter(model.log_likelihoods(pairs, progress))
    right = right_per_byte = 0
    examples: list[dict[str, Any]] = []
    for row in rows:
        sums = [next(scores) for _ in row.choices]
        per_byte = [score / len(choice.encode()) for score, choice in zip(sums, row.choices, strict=True)]
        correct = _only_best(sums) == row.answer
        right += correct
        right_per_byte += _only_best(per_byte) == row.answer
        if len(examples) < _EXAMPLES:
            picked = row.choices[max(range(len(sums)), key=sums.__getitem__)]
            examples.append(_example(row.question, row.choices[row.answer], picked, correct))
    also = {"accuracy_per_byte": right_per_byte / len(rows)}
    return _share(name, "multiple_choice", "accuracy", right, len(rows), also, examples)


def exact_match(
    name: str, rows: Sequence[AnswerRow], model: Completer, progress: Callable[[int, int], None]
) -> TaskResult:
    """Share of rows whose generated answer is one of the right ones, character for character.

    The answer is what the model writes up to the end of text, or up to the first line break unless a right answer
    has one; white space around it does not count.
    """
    longest = max(model.count_tokens(answer) for row in rows for answer in row.answers)
    texts = model.complete([row.prompt for row in rows], longest + _SPARE_TOKENS, progress)
    right = 0
    examples: list[dict[str, Any]] = []
    for row, text in zip(rows, texts, strict=True):
        wanted = [answer.strip() for answer in row.answers]
        given = text.strip()
        if not any("\n" in answer for answer in wanted):
            given = given.partition("\n")[0].rstrip()
        correct = given in wanted
        right += correct
        if len(examples) < _EXAMPLES:
            asked = row.prompt if isinstance(row.prompt, str) else row.prompt[-1]["content"]
            examples.append(_example(asked, row.answers[0], given, correct))
    return _share(name, "exact_match", "exact_match", right, len(rows), {}, examples)


def joined(question: str, choice: str) -> str:
    """The choice as it follows the question: after a space, unless one of the two brings its own white space."""
    return choice if not question or question[-1].isspace() or choice[0].isspace() else f" {choice}"


def _only_best(scores: Sequence[float]) -> int | None:
    """Number of the highest score; None when it is shared or not a number."""
    best = max(scores)
    return scores.index(best) if list(scores).count(best) == 1 and not any(map(math.isnan, scores)) else None


def _share(
    name: str, kind: str, metric: str, right: int, rows: int, also: dict[str, float], examples: list[dict[str, Any]]
) -> TaskResult:
    share = right / rows
    return TaskResult(name, kind, share, metric, rows, math.sqrt(share * (1 - share) / rows), also, tuple(examples))


def _example(asked: str, wanted: str, given: str, correct: bool) -> dict[str, Any]:
    return {"prompt": asked, "wanted": wanted, "given": given, "correct": correct}
