"""Snippets of a long document, and the defects that an audit found in them, for ``lint_recall.py --document``.

A document is Markdown with fences, or plain text in which a line that is only a language's name begins a snippet and
the next line of prose in the margin ends it. ``data/lint_document.json`` says, for one such document, which rules
answer each defect of each snippet; it holds no text of the document.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

EXPECTED = Path(__file__).parent / "data" / "lint_document.json"
_LANGUAGES = {"yaml": "yaml", "bash": "sh", "shell": "sh", "python": "py", "json": "json"}
_FENCE = re.compile(r"^```(\w+)\s*$")
_PROSE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|^[A-Z][a-z]+ [a-z]+ [a-z]+ .*[.!]$")


@dataclass(frozen=True)
class Snippet:
    """``name`` is what the audit calls it: S and its number. ``line`` is that of its language in the document."""

    name: str
    line: int
    file: str
    text: str


@dataclass(frozen=True)
class Defect:
    """One audited defect: ``number`` in the audit, and the rules of which one must fire in the snippet, or
    ``anywhere`` when it shows only between snippets."""

    snippet: str
    number: int
    rules: tuple[str, ...]
    anywhere: bool = False
    not_checkable: str = ""
    """Why no reader of these files alone could find it; "" when one can."""


def snippets(document: str) -> list[Snippet]:
    """All snippets in a language that is linted, in order."""
    lines = document.split("\n")
    found: list[Snippet] = []
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        language = fence[1] if fence else lines[at].strip()
        if language not in _LANGUAGES:
            at += 1
            continue
        end = at + 1
        while end < len(lines) and not (lines[end].startswith("```") if fence else _ends(lines[end])):
            end += 1
        name = f"S{len(found) + 1:02}"
        text = "\n".join(lines[at + 1 : end]).strip("\n") + "\n"
        suffix = "sbatch" if "#SBATCH" in text else _LANGUAGES[language]
        found.append(Snippet(name, at + 1, f"{name}.{suffix}", text))
        at = end + 1 if fence else end
    return found


def defects() -> list[Defect]:
    """What is expected."""
    rows = json.loads(EXPECTED.read_text("utf-8"))["rows"]
    return [
        Defect(
            row["snippet"],
            row["defect"],
            tuple(row["rules"]),
            row.get("anywhere", False),
            row.get("not_checkable", ""),
        )
        for row in rows
    ]


def _ends(line: str) -> bool:
    """Whether a line in the margin is prose, or begins the next snippet."""
    if line.strip() in _LANGUAGES:
        return True
    return bool(line) and not line[0].isspace() and "#" not in line and _PROSE.search(line) is not None
