"""Blank out template expressions so that a template can be read as the file it will become.

Takes text with ``{{ }}``, ``{% %}``, ``<% %>`` or ``%{ if }`` and gives text of the same length in which every
expression is made of placeholder characters or, on a line of its own, is a comment; and the offsets of the lines
where a template may add or remove content. Must not know what the text means.
"""

from __future__ import annotations

import re

from trainwright.linter.text import PLACEHOLDER

_OPENING = re.compile(r"\{\{|\{%|\{#|<%")
_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}", "<%": "%>"}
_TERRAFORM = re.compile(r"%\{~?[ \t]*(?:if|else|endif|for|endfor)\b[^}\n]*\}")
# One run of placeholders and blanks, not runs of runs: nested repetition takes exponential time on long lines.
_NOT_LINE_END = re.compile(r"[^\n]")
_WHOLE_LINE = re.compile(rf"^([ \t]*)(-[ \t]+)?{PLACEHOLDER}[{PLACEHOLDER} \t]*$", re.MULTILINE)


def has_templates(content: str) -> bool:
    """Whether the text holds template expressions at all."""
    return "{{" in content or "{%" in content or "<%" in content or "%{" in content


def blank_templates(content: str) -> tuple[str, list[int]]:
    """The text without expressions, of equal length, and the offsets of lines that were only expressions."""

    lines: list[int] = []

    def comment(match: re.Match[str]) -> str:
        lines.append(match.start())
        if match[2]:
            return match[0]
        return match[1] + "#" + " " * (len(match[0]) - len(match[1]) - 1)

    content = _TERRAFORM.sub(lambda match: PLACEHOLDER * len(match[0]), content)
    return _WHOLE_LINE.sub(comment, _without_expressions(content)), lines


def _without_expressions(content: str) -> str:
    """Every expression as placeholders. One pass: an opening that is never closed is looked for only once."""
    out: list[str] = []
    at = 0
    unclosed: set[str] = set()
    for match in _OPENING.finditer(content):
        opening = match[0]
        if match.start() < at or opening in unclosed:
            continue
        end = content.find(_CLOSING[opening], match.end())
        if end == -1:
            unclosed.add(opening)
            continue
        out.append(content[at : match.start()])
        at = end + 2
        out.append(_NOT_LINE_END.sub(PLACEHOLDER, content[match.start() : at]))
    out.append(content[at:])
    return "".join(out)
