"""Findings for a person: place, what is written there with a caret, why it hurts, what to write instead.

Takes Findings and the contents of their files; gives text. Colours are ANSI codes, so that nothing heavy is imported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from trainwright.linter.finding import Finding

_COLOURS = {"error": "\033[1;31m", "warning": "\033[1;33m", "note": "\033[1;36m"}
_BOLD, _DIM, _END = "\033[1m", "\033[2m", "\033[0m"
_WIDTH = 160
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def render_terminal(findings: Sequence[Finding], contents: Mapping[str, str], *, colour: bool = False) -> str:
    """All findings and a summary line. ``contents`` is the text of each file by path."""
    lines: list[str] = []
    split: dict[str, list[str]] = {}
    for finding in findings:
        source = split.setdefault(finding.path, contents.get(finding.path, "").split("\n"))
        lines.extend(_one(finding, source, colour))
        lines.append("")
    counts = Counter(finding.severity for finding in findings)
    words = [
        f"{counts[kind]} {kind}{'s' * (counts[kind] != 1)}" for kind in ("error", "warning", "note") if counts[kind]
    ]
    lines.append(", ".join(words) if words else "nothing found")
    return "\n".join(lines)


def _visible(text: str) -> str:
    """Control characters of a linted file as a box: it must not command the terminal."""
    return _CONTROL.sub("\ufffd", text)


def _one(finding: Finding, source: Sequence[str], colour: bool) -> list[str]:
    paint, bold, dim, end = (_COLOURS[finding.severity], _BOLD, _DIM, _END) if colour else ("", "", "", "")
    place = f"{finding.path}:{finding.line}:{finding.column}"
    lines = [f"{bold}{_visible(place)}{end}: {paint}{finding.severity}{end} {finding.rule} {_visible(finding.why)}"]
    if 1 <= finding.line <= len(source):
        written = source[finding.line - 1]
        start = finding.column - 1
        length = finding.end_column - finding.column if finding.end_line == finding.line else len(written) - start
        if len(written) > _WIDTH:
            cut = max(0, start - 40)
            written, start = ("…" + written[cut + 1 : cut + _WIDTH]), start - cut
        number = str(finding.line)
        # A tab before the caret keeps it below what it points at, however wide the terminal shows tabs.
        indent = "".join("\t" if char == "\t" else " " for char in written[:start]).ljust(start)
        caret = indent + "^" * max(1, min(length, len(written) - start))
        lines.append(f"{dim}  {number} |{end} {_visible(written)}")
        lines.append(f"{dim}  {' ' * len(number)} |{end} {paint}{caret}{end}")
    lines.append(f"    instead: {_visible(finding.instead)}")
    return lines
