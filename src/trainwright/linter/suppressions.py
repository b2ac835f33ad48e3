"""Comments that switch rules off: ``# trainwright: ignore[TW123] reason`` on a line or above it, or for a whole file
with ``ignore-file``.

Takes read files; gives Suppressions with the lines they cover. A comment on its own line covers the next line that is
none, and with it the rest of a shell command that goes on behind a backslash, where no comment can stand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainwright.linter.finding import Finding
from trainwright.linter.project import SourceFile
from trainwright.linter.text import Span

_COMMENT = re.compile(r"(?<!`)(?:#|//|<!--)\s*trainwright:\s*ignore(-file)?\b(?:\s*\[([^\]\n]*)\])?")
_MARKERS = ("#", "//", "<!--")


@dataclass(frozen=True)
class Suppression:
    """``prefixes`` of rule ids that are off from line ``first`` to ``last``; ``span`` is the comment's own words."""

    path: str
    prefixes: tuple[str, ...]
    first: int
    last: int
    span: Span

    def covers(self, finding: Finding) -> bool:
        """Whether the comment switches this finding off."""
        return (
            finding.path == self.path
            and self.first <= finding.line <= self.last
            and finding.rule.startswith(self.prefixes)
        )


def read_suppressions(file: SourceFile) -> list[Suppression]:
    """Every such comment of a file, in order."""
    content = file.text.shown or file.text.content
    if "trainwright:" not in content:
        return []
    found: list[Suppression] = []
    lines = content.split("\n")
    offset = 0
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line) if "trainwright:" in line else None
        if match is not None:
            prefixes = tuple(part.strip() for part in (match[2] or "").split(",") if part.strip()) or ("TW",)
            alone = not line[: match.start()].strip()
            first, last = (1, len(lines)) if match[1] else _covered(lines, number, alone=alone)
            span = Span(file.text, offset + match.start(), offset + match.end())
            found.append(Suppression(file.path, prefixes, first, last, span))
        offset += len(line) + 1
    return found


def split_suppressed(
    findings: Sequence[Finding], suppressions: Sequence[Suppression]
) -> tuple[list[Finding], list[Suppression]]:
    """The findings that no comment switches off, and the comments that switch off nothing."""
    by_path: dict[str, list[Suppression]] = {}
    for suppression in suppressions:
        by_path.setdefault(suppression.path, []).append(suppression)
    used: set[int] = set()
    kept: list[Finding] = []
    for finding in findings:
        covering = [s for s in by_path.get(finding.path, ()) if s.covers(finding)]
        used.update(id(s) for s in covering)
        if not covering:
            kept.append(finding)
    return kept, [s for s in suppressions if id(s) not in used]


def _covered(lines: Sequence[str], number: int, *, alone: bool) -> tuple[int, int]:
    """First and last line that a comment on line ``number`` is about."""
    first = number
    if alone:
        first += 1
        while first <= len(lines) and _is_remark(lines[first - 1]):
            first += 1
    last = first
    while last <= len(lines) and lines[last - 1].endswith("\\"):
        last += 1
    return first, last


def _is_remark(line: str) -> bool:
    """Whether a line is only a comment; ``#SBATCH`` says something."""
    return line.lstrip().startswith(_MARKERS) and not line.lstrip().startswith("#SBATCH")
