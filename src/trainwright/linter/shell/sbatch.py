"""The ``#SBATCH`` lines of a script, read as Slurm reads them.

Slurm stops at the first line that is neither blank nor a comment: directives below it are ``late`` and have no
effect. Takes a Text, gives Directives with one Flag per option.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainwright.facts.data import read_rows
from trainwright.linter.shell.flags import Flags, split_options
from trainwright.linter.shell.words import Word
from trainwright.linter.text import Span, Text

_DIRECTIVE = re.compile(r"^#SBATCH\b[ \t]*(.*)$")
_LOOKALIKE = re.compile(r"^(?:#[ \t]+SBATCH|#(?!SBATCH)(?i:sbatch))[ \t=]+--?\w")
_TOKEN = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")


@dataclass(frozen=True)
class Directives:
    """``flags`` in effect (the last of a repeated option wins), names of ``late`` options that Slurm never sees,
    the first command line that ended the reading, and ``place``: the line where a missing directive would go.
    ``lookalikes`` are comments that were meant as directives (``# SBATCH``, ``#sbatch``)."""

    flags: Flags = field(default_factory=Flags)
    late: tuple[str, ...] = ()
    late_place: Span | None = None
    first_command: Span | None = None
    place: Span | None = None
    lookalikes: tuple[Span, ...] = ()


def read_directives(text: Text) -> Directives:
    """All directives of a script; empty when there are none."""
    if "#SBATCH" not in text.content:
        return Directives(place=Span(text, 0, max(1, text.content.find("\n"))))
    # sbatch takes the options of srun and a few without a value of its own.
    table: Mapping[str, Any] = {**read_rows("launchers")["srun"]}
    words: list[Word] = []
    late: list[Word] = []
    first: Span | None = None
    place: Span | None = None
    lookalikes: list[Span] = []
    at = 0
    for line in text.content.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        match = _DIRECTIVE.match(bare)
        if match:
            target = late if first is not None else words
            target.extend(_words(text, at + match.start(1), match[1]))
            if first is None:
                place = Span(text, at, at + len(bare))
        elif first is None and _LOOKALIKE.match(bare):
            lookalikes.append(Span(text, at, at + len(bare)))
        elif bare.strip() and not bare.startswith("#") and first is None:
            first = Span(text, at, at + len(bare))
        at += len(line)
    if place is None:
        place = Span(text, 0, max(1, text.content.find("\n")))
    flags, _ = split_options(words, table, place)
    ignored, _ = split_options(late, table, place)
    return Directives(flags, tuple(ignored.used), late[0].span if late else None, first, place, tuple(lookalikes))


def _words(text: Text, start: int, body: str) -> list[Word]:
    """The options of one line; a "#" after blanks begins a comment."""
    words: list[Word] = []
    for token in _TOKEN.finditer(body):
        if token[0].startswith("#"):
            break
        try:
            value = "".join(shlex.split(token[0]))
        except ValueError:
            value = token[0]
        words.append(Word(Span(text, start + token.start(), start + token.end()), value))
    return words
