"""The few exceptions that reach a user, each with what went wrong, where, and the way out.

The CLI turns each into text (or JSON) and its exit code; nothing else may escape a verb.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input. ``line`` and ``column`` are 1-based; 0 means "not known"."""

    path: str
    line: int = 0
    column: int = 0
    field: str = ""
    what: str = ""
    instead: str = ""

    def __str__(self) -> str:
        where = ":".join([self.path, *(str(n) for n in (self.line, self.column) if n)])
        text = ": ".join(part for part in (where, self.field, self.what) if part)
        return f"{text}; {self.instead}" if self.instead else text

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)


class TrainwrightError(Exception):
    """Anything that ends a verb. ``exit_code`` follows the table in docs/exit-codes.md."""

    exit_code = 4

    def __init__(self, message: str, way_out: str = ""):
        self.message = message
        self.way_out = way_out
        super().__init__(f"{message}; {way_out}" if way_out else message)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return {"error": self.message, "way_out": self.way_out, "exit_code": self.exit_code}


class InputError(TrainwrightError):
    """Bad input: a spec, a flag, a file. Carries every problem found, not the first."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]):
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[InputError], tuple[list[Problem]]]:
        """How it is pickled: a process that tokenises hands its problems to the one that tells them."""
        return type(self), (self.problems,)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values, every problem listed."""
        return {
            "error": "bad input",
            "problems": [p.to_dict() for p in self.problems],
            "exit_code": self.exit_code,
        }


class AnswerNo(TrainwrightError):
    """The question was well put and the answer is no: it does not fit, it failed, the gate refused, it is damaged."""

    exit_code = 1


class SystemUnreachable(TrainwrightError):
    """A scheduler, store or hub cannot be reached, or refuses us."""

    exit_code = 3


class MissingExtra(TrainwrightError):
    """A feature needs an optional dependency that is not installed."""

    exit_code = 2

    def __init__(self, feature: str, extra: str):
        super().__init__(f"{feature} needs a package that is not installed", f'pip install "trainwright[{extra}]"')


def did_you_mean(word: str, choices: Iterable[str], *, begun: bool = False) -> str:
    """A clause that names the nearest legal word, or all of them when none is near. ``begun``: names that start with
    the word are nearer than any other, as where a family stands for its members.
    """
    listed = [str(choice) for choice in choices]
    if begun and word and (longer := [choice for choice in listed if choice.startswith(word)]):
        return f"did you mean {longer[0]}?" if len(longer) == 1 else f"one of {', '.join(longer)}"
    near = difflib.get_close_matches(word, listed, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"one of {', '.join(listed)}"
