"""Text and Span: where every piece of an input stands, down to the outermost file.

A ``Text`` is a file, or a piece of one (a heredoc, a ConfigMap entry, a fenced block, a ``sh -c`` string) that
remembers where each of its characters came from. A ``Span`` is a range of offsets in a Text; lines and columns are
computed only when a finding is printed. Nothing here knows YAML, shell or any rule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from trainwright.linter.finding import Edit

PLACEHOLDER = "\ue000"
"""Stands, one for one, for characters whose value only a template engine or a shell knows."""


@dataclass(eq=False)
class Text:
    """``content`` is what a reader parses. ``parent`` and ``offsets`` say where it came from: ``offsets`` is an int
    for a contiguous piece of the parent, or one parent offset per character (plus one for the end) when escapes or
    indentation were removed. ``early`` holds the offsets of ``$`` that an outer shell already expanded. ``shown``
    is the text before template placeholders were blanked, for quoting; it has the same length as ``content``."""

    path: str
    content: str = field(repr=False)
    parent: Text | None = field(default=None, repr=False)
    offsets: int | Sequence[int] = field(default=0, repr=False)
    early: frozenset[int] = frozenset()
    shown: str | None = field(default=None, repr=False)
    name: str = ""
    _starts: list[int] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.name = self.name or self.path

    def up(self, offset: int) -> int:
        """The offset in ``parent`` of the character at ``offset``."""
        if isinstance(self.offsets, int):
            return self.offsets + offset
        return self.offsets[min(offset, len(self.offsets) - 1)] if self.offsets else 0

    def root(self) -> Text:
        """The outermost file."""
        text = self
        while text.parent is not None:
            text = text.parent
        return text

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and column, in the outermost file, of the character at ``offset``."""
        text, at = self, max(0, min(offset, len(self.content)))
        while text.parent is not None:
            at, text = text.up(at), text.parent
        if text._starts is None:
            starts = [0]
            for number, char in enumerate(text.content):
                if char == "\n":
                    starts.append(number + 1)
            text._starts = starts
        line = bisect_right(text._starts, at)
        return line, at - text._starts[line - 1] + 1

    def piece(self, start: int, end: int, name: str = "") -> Text:
        """A contiguous part as a Text of its own, for example the body of a heredoc."""
        return Text(self.path, self.content[start:end], self, start, name=name or self.name)

    def span(self, start: int, end: int) -> Span:
        """The range [start, end)."""
        return Span(self, start, end)

    def quote(self, start: int, end: int) -> str:
        """The characters as the author wrote them."""
        return (self.shown if self.shown is not None else self.content)[start:end]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a Text."""

    text: Text
    start: int
    end: int

    @property
    def path(self) -> str:
        """The outermost file."""
        return self.text.path

    @property
    def quoted(self) -> str:
        """The first line of what is written there, without surrounding blanks, at most 120 characters."""
        lines = self.text.quote(self.start, max(self.end, self.start)).strip().splitlines()
        line = lines[0].rstrip() if lines else ""
        return line if len(line) <= 120 else line[:117] + "..."

    @property
    def line(self) -> int:
        """1-based line in the outermost file."""
        return self.text.position(self.start)[0]

    @property
    def column(self) -> int:
        """1-based column in the outermost file."""
        return self.text.position(self.start)[1]

    @property
    def extent(self) -> tuple[int, int, int, int]:
        """1-based line, column, end line, end column (exclusive) in the outermost file."""
        line, column = self.text.position(self.start)
        end_line, end_column = self.text.position(max(self.start, self.end - 1))
        return line, column, end_line, end_column + (1 if self.end > self.start else 0)

    def part(self, start: int, end: int) -> Span:
        """A range inside this span, relative to its start."""
        return Span(self.text, self.start + start, min(self.start + end, self.end))

    def edit(self, replacement: str) -> Edit | None:
        """The replacement as an Edit of the outermost file, or None when this text is not literally there."""
        text, start, end = self.text, self.start, self.end
        while text.parent is not None:
            if not isinstance(text.offsets, int):
                mapped = [text.up(n) for n in range(start, end)]
                if any(b != a + 1 for a, b in pairwise(mapped)) or not mapped:
                    return None
                start, end = mapped[0], mapped[-1] + 1
            else:
                start, end = text.up(start), text.up(end)
            text = text.parent
        if text.content[start:end] != self.text.content[self.start : self.end]:
            return None
        line, column = text.position(start)
        end_line, end_column = text.position(end)
        return Edit(line, column, end_line, end_column, replacement)


def align(decoded: str, source: Text, start: int, end: int, name: str = "") -> Text:
    """A decoded string (a YAML scalar) as a Text over the ``source`` range that it was written in.

    Decoding only drops indentation, folds line ends and resolves escapes, so one greedy walk finds every character.
    """
    content, at, offsets = source.content, start, []
    for char in decoded:
        if char in " \n":
            while at < end and content[at] not in " \t\r\n\\":
                at += 1
        else:
            probe = content.find(char, at, end)
            escape = content.find("\\", at, end)
            if escape != -1 and (probe == -1 or escape < probe) and char not in content[at : escape + 1]:
                probe = escape if content[escape + 1 : escape + 2] != char else escape + 1
            if probe != -1:
                at = probe
        offsets.append(min(at, max(start, end - 1)))
        if at < end:
            at += 2 if content[at] == "\\" and char != "\\" else 1
            if char == "\n":
                while at < end and content[at] in " \t" and content[at - 1] != "\n":
                    at += 1
    offsets.append(min(at, end))
    return Text(source.path, decoded, source, offsets, name=name or source.name)
