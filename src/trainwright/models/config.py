"""Reading a Hugging Face ``config.json`` value by value, so that everything wrong is told at once.

Takes the parsed dict and gives checked numbers; a missing or impossible value is recorded and replaced by a harmless
one until ``check`` raises. It must not know any architecture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainwright.errors import InputError, Problem

#: More than any model has: layers are looked at one by one, and other sizes are multiplied with each other.
MOST_LAYERS = 10_000
LARGEST = 1 << 36


class ConfigReader:
    """One config under reading. ``where`` is its path in messages."""

    def __init__(self, values: Mapping[str, Any], where: str = "config.json"):
        self.values = values
        self.where = where
        self.problems: list[Problem] = []

    def size(self, *names: str, default: int | None = None) -> int:
        """The first of ``names`` that is set, a whole number of at least 1; without a ``default`` it must be set.

        Sizes beyond ``LARGEST`` are refused: a hostile number of layers would otherwise be walked one by one.
        """
        name, value = self._first(names)
        if value is None:
            if default is None:
                self.problem(names[0], "is missing", "a whole number of at least 1 is needed")
            return default or 1
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.problem(name, f"is {value!r}", "a whole number of at least 1 is needed")
            return default or 1
        return self._believable(name, value)

    def count(self, *names: str, default: int = 0) -> int:
        """Like ``size`` but 0 is allowed and ``null`` means ``default``."""
        name, value = self._first(names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.problem(name, f"is {value!r}", "a whole number of at least 0 is needed")
            return default
        return self._believable(name, value)

    def flag(self, name: str, default: bool) -> bool:
        """A true/false value."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problem(name, f"is {value!r}", "true or false is needed")
            return default
        return value

    def number(self, *names: str, default: float = 0.0) -> float:
        """A real number."""
        name, value = self._first(names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.problem(name, f"is {value!r}", "a number is needed")
            return default
        return float(value)

    def text(self, *names: str, default: str = "") -> str:
        """A string."""
        name, value = self._first(names)
        if value is None:
            return default
        if not isinstance(value, str):
            self.problem(name, f"is {value!r}", "a string is needed")
            return default
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list, or None when it is not set."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.problem(name, f"is {value!r}", "a list is needed")
            return None
        return list(value)

    def indexes(self, name: str) -> list[int] | None:
        """A list of whole numbers of at least 0 (layer indexes, 0/1 per layer), or None when it is not set."""
        listed = self.items(name)
        for item in listed or ():
            if isinstance(item, bool) or not isinstance(item, int) or item < 0:
                self.problem(name, f"holds {item!r}", "whole numbers of at least 0 are needed")
                return None
        return listed

    def inner(self, name: str) -> ConfigReader:
        """A reader of a nested object (``text_config``), sharing this one's problems."""
        value = self.values.get(name)
        reader = ConfigReader(value if isinstance(value, Mapping) else {}, f"{self.where}:{name}")
        reader.problems = self.problems
        if value is not None and not isinstance(value, Mapping):
            self.problem(name, f"is {value!r}", "an object is needed")
        return reader

    def problem(self, field: str, what: str, instead: str = "") -> None:
        """Record something wrong with one field."""
        self.problems.append(Problem(self.where, field=field, what=what, instead=instead))

    def check(self) -> None:
        """Raise ``InputError`` with everything recorded, if anything was."""
        if self.problems:
            raise InputError(self.problems)

    def _believable(self, name: str, value: int) -> int:
        most = MOST_LAYERS if "layer" in name else LARGEST
        if value <= most:
            return value
        what = f"is {value:.4g}" if value < 10**300 else "is absurdly large"
        self.problem(name, what, f"at most {most:,} is believable")
        return 1

    def _first(self, names: Sequence[str]) -> tuple[str, Any]:
        for name in names:
            if self.values.get(name) is not None:
                return name, self.values[name]
        return names[0], None
