"""Rows of the user's own evaluation files: JSONL in, typed rows out, every bad row named by file and line.

Knows the two formats and nothing of models or scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from trainwright import plain_json
from trainwright.errors import InputError, Problem

RowT = TypeVar("RowT")
_LISTED = 10


@dataclass(frozen=True)
class ChoiceRow:
    """A question with several continuations, of which ``choices[answer]`` is right."""

    question: str
    choices: tuple[str, ...]
    answer: int


@dataclass(frozen=True)
class AnswerRow:
    """A prompt, or a conversation whose next turn is wanted, and every answer that counts as right."""

    prompt: str | tuple[dict[str, str], ...]
    answers: tuple[str, ...]


class _BadRow(ValueError):
    """What is wrong with a row, and what would be right."""

    def __init__(self, field: str, what: str, instead: str):
        self.field, self.what, self.instead = field, what, instead
        super().__init__(what)


def choice_rows(path: Path, limit: int | None = None) -> list[ChoiceRow]:
    """Rows ``{"question", "choices", "answer"}``; ``answer`` is an index from 0, or the text of the right choice."""
    return _rows(path, _choice_row, limit)


def answer_rows(path: Path, limit: int | None = None) -> list[AnswerRow]:
    """Rows ``{"prompt" or "messages", "answer"}``; ``answer`` is a text, or a list of texts that are all right."""
    return _rows(path, _answer_row, limit)


def _rows(path: Path, read: Callable[[dict[str, Any]], RowT], limit: int | None) -> list[RowT]:
    problems: list[Problem] = []
    rows: list[RowT] = []
    for number, line in islice(_lines(path), limit):
        try:
            rows.append(read(_object(line)))
        except _BadRow as bad:
            problems.append(Problem(str(path), number, 0, bad.field, bad.what, bad.instead))
    if problems:
        more = len(problems) - _LISTED
        rest = [Problem(str(path), what=f"has {more} more bad rows")] if more > 0 else []
        raise InputError(problems[:_LISTED] + rest)
    if not rows:
        raise InputError([Problem(str(path), what="holds no rows", instead="write one JSON object a line")])
    return rows


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as handle:
            yield from ((number, line) for number, line in enumerate(handle, 1) if line.strip())
    except OSError as error:
        raise InputError([Problem(str(path), what=f"cannot be read: {error.strerror}")]) from error


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = plain_json.loads(line)
    except ValueError as error:
        raise _BadRow("", f"is not JSON: {error}", "write one JSON object a line") from None
    if not isinstance(value, dict):
        raise _BadRow("", f"holds {json.dumps(value)[:40]}", "write one JSON object a line")
    return value


def _choice_row(row: dict[str, Any]) -> ChoiceRow:
    question = _text(row, "question")
    choices = row.get("choices")
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(c, str) and c for c in choices):
        raise _BadRow("choices", "is no list of at least two texts", 'write "choices": ["yes", "no"]')
    answer = row.get("answer")
    if isinstance(answer, str) and choices.count(answer) == 1:
        answer = choices.index(answer)
    if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < len(choices):
        what = "is missing" if answer is None else f"is {answer!r}"
        raise _BadRow("answer", what, f"write a number from 0 to {len(choices) - 1}, or one of the choices")
    return ChoiceRow(question, tuple(choices), answer)


def _answer_row(row: dict[str, Any]) -> AnswerRow:
    if "messages" in row:
        prompt: str | tuple[dict[str, str], ...] = _messages(row["messages"])
    else:
        prompt = _text(row, "prompt")
    answer = row.get("answer")
    answers: list[Any] = answer if isinstance(answer, list) else [answer]
    if not answers or not all(isinstance(text, str) and text.strip() for text in answers):
        raise _BadRow("answer", "is no text", 'write "answer": "42", or a list of texts that are all right')
    return AnswerRow(prompt, tuple(answers))


def _text(row: dict[str, Any], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value:
        what = "is missing" if value is None else f"is {json.dumps(value)[:40]}"
        raise _BadRow(field, what, f'write "{field}": "some text"; the row has {", ".join(row) or "no fields"}')
    return value


def _messages(value: Any) -> tuple[dict[str, str], ...]:
    def well_formed(turn: Any) -> bool:
        return isinstance(turn, dict) and all(isinstance(turn.get(key), str) for key in ("role", "content"))

    if not isinstance(value, list) or not value or not all(map(well_formed, value)):
        raise _BadRow("messages", "is no conversation", 'write "messages": [{"role": "user", "content": "…"}]')
    return tuple({"role": turn["role"], "content": turn["content"]} for turn in value)
