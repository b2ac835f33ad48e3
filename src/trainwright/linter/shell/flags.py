"""Flags: the options of one program on a command line, by canonical name, each with its place.

``--nproc-per-node=8``, ``--nproc_per_node 8`` and ``-N8`` are one notation. Takes words and a program's option table
(facts/launchers.json); gives Flags and what follows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwright.linter.shell.words import Word
from trainwright.linter.text import PLACEHOLDER, Span, Text
from trainwright.linter.values import Absent, Known, Unknown, Value, integer

_TRUE = {"true", "1", "yes", "on", ""}
_FALSE = {"false", "0", "no", "off", "none", "null"}


@dataclass(frozen=True, slots=True)
class Flag:
    """One option as used: the word that names it and the word (or part of one) that is its value."""

    name: str
    word: Word
    value: Word | None = None

    @property
    def span(self) -> Span:
        """From the option's name to the end of its value, when both stand in the same text."""
        if (
            self.value is None
            or self.value.span.text is not self.word.span.text
            or self.value.span.end < self.word.span.start
        ):
            return self.word.span
        return Span(self.word.span.text, self.word.span.start, max(self.value.span.end, self.word.span.end))


@dataclass(frozen=True)
class Flags:
    """Options by canonical name (no leading dashes, "_" for "-"). ``place`` is where a missing one would be added.
    ``open`` says that a word of unknown content may hold further options."""

    used: Mapping[str, tuple[Flag, ...]] = field(default_factory=dict)
    place: Span | None = None
    open: bool = False

    def find(self, *names: str) -> Flag | None:
        """The last use of any of these options."""
        for name in names:
            if self.used.get(name):
                return self.used[name][-1]
        return None

    def has(self, *names: str) -> bool:
        """Whether one of these options is written."""
        return any(name in self.used for name in names)

    def all(self, name: str) -> tuple[Flag, ...]:
        """Every use of a repeatable option."""
        return self.used.get(name, ())

    def __iter__(self) -> Iterator[Flag]:
        for uses in self.used.values():
            yield from uses

    def text(self, *names: str) -> Value[str]:
        """An option's value; Unknown when it is computed, Absent when the option is not written."""
        flag = self.find(*names)
        if flag is None:
            return self._missing()
        return Known("", flag.span) if flag.value is None else flag.value.value

    def number(self, *names: str) -> Value[int]:
        """An option's value as an integer; Unknown when it is computed or no integer."""
        flag = self.find(*names)
        if flag is None:
            return self._missing()
        if flag.value is None:
            return Unknown(flag.span)
        found = integer(flag.value.expanded)
        return Unknown(flag.span, flag.value.expanded) if found is None else Known(found, flag.span)

    def decimal(self, *names: str) -> Value[float]:
        """An option's value as a float ("5e-5"); Unknown when it is computed or no number."""
        flag = self.find(*names)
        if flag is None:
            return self._missing()
        try:
            return Known(float(flag.value.expanded if flag.value else ""), flag.span)
        except ValueError:
            return Unknown(flag.span)

    def switch(self, *names: str) -> Value[bool]:
        """An option that is on when written alone or with "true"; Absent when it is not written."""
        flag = self.find(*names)
        if flag is None:
            return self._missing()
        text = (flag.value.expanded if flag.value else "").strip().lower()
        if text in _TRUE:
            return Known(True, flag.span)
        return Known(False, flag.span) if text in _FALSE else Unknown(flag.span, text)

    def _missing(self) -> Absent | Unknown:
        place = self.place or Span(Text("", ""), 0, 0)
        return Unknown(place) if self.open else Absent(place)


def canonical(name: str) -> str:
    """ "--nproc-per-node" as "nproc_per_node"."""
    return name.lstrip("-").replace("-", "_")


def split_options(words: Sequence[Word], table: Mapping[str, Any], place: Span) -> tuple[Flags, int]:
    """The options at the beginning of ``words`` and how many words they take. Stops at the first operand or "--"."""
    switches, optional = set(table.get("switches", ())), set(table.get("optional", ()))
    short, aliases = table.get("short", {}), table.get("aliases", {})
    pairs = set(table.get("pairs", ()))
    used: dict[str, list[Flag]] = {}
    opened = False
    at = 0
    while at < len(words):
        word = words[at]
        text = word.expanded
        if text == "--":
            at += 1
            break
        if not text.startswith("-") or text == "-":
            if text.startswith(PLACEHOLDER) and at + 1 < len(words) and not word.quoted:
                # An unquoted variable of unknown content in option position: it may hold options or nothing.
                opened = True
                at += 1
                continue
            break
        name, value, taken = _one(word, words[at + 1 : at + 3], switches, optional, short, pairs)
        name = aliases.get(name, name)
        used.setdefault(name, []).append(Flag(name, word, value))
        at += taken
    return Flags({key: tuple(value) for key, value in used.items()}, place, opened), at


def _one(word: Word, rest: Sequence[Word], switches: set[str], optional: set[str], short: Mapping[str, str],
         pairs: set[str]) -> tuple[str, Word | None, int]:  # fmt: skip
    """Canonical name, value and number of words of the option that ``word`` begins."""
    text = word.expanded
    head, equals, _ = text.partition("=")
    if equals:
        letter = head[1:]
        name = short.get(letter, canonical(head)) if len(letter) == 1 else canonical(head)
        return name, word.after(head + "="), 1
    if not text.startswith("--") and len(text) > 2 and text[1] in short and canonical(text) not in switches | pairs:
        name = short[text[1]]
        if name not in switches and (text[2:].isdigit() or text[2] == PLACEHOLDER):
            return name, word.after(text[:2]), 1
    name = short.get(text[1:], canonical(text)) if len(text) == 2 else canonical(text)
    if name in switches or name in optional or canonical(text) in switches or not rest:
        return name, None, 1
    if name in pairs and len(rest) > 1:
        return f"{name}:{rest[0].expanded}", rest[1], 3
    return name, rest[0], 2


def program_flags(words: Sequence[Word], place: Span) -> tuple[Flags, tuple[Word, ...]]:
    """Options and operands of a program whose option table is not known: an option takes the next word unless that
    begins with "-"."""
    used: dict[str, list[Flag]] = {}
    operands: list[Word] = []
    opened = False
    at = 0
    while at < len(words):
        word = words[at]
        text = word.expanded
        following = words[at + 1] if at + 1 < len(words) else None
        at += 1
        if text.startswith("-") and text.strip("-") and not _is_number(text):
            head, equals, _ = text.partition("=")
            name = canonical(head)
            if equals:
                used.setdefault(name, []).append(Flag(name, word, word.after(head + "=")))
            elif following is not None and (not following.expanded.startswith("-") or _is_number(following.expanded)):
                used.setdefault(name, []).append(Flag(name, word, following))
                at += 1
            else:
                used.setdefault(name, []).append(Flag(name, word))
        else:
            key, equals, _ = text.partition("=")
            if equals and key.lstrip("+~").replace(".", "").replace("_", "").replace("/", "").isalnum():
                # Hydra: trainer.devices=8 is an option without dashes.
                name = key.lstrip("+~").replace("-", "_")
                used.setdefault(name, []).append(Flag(name, word, word.after(key + "=")))
            else:
                operands.append(word)
                opened = opened or (PLACEHOLDER in text and not word.quoted)
    return Flags({key: tuple(value) for key, value in used.items()}, place, opened), tuple(operands)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
