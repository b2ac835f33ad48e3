"""Findings as a person, a program or a CI system reads them: one module for each format, each with ``render``.

``FORMATS`` is name → "module:function" from findings and the contents of all linted files, by path, to text.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

from trainwright.linter.finding import Finding

FORMATS: dict[str, str] = {
    "text": "trainwright.linter.output.terminal:render_terminal",
    "json": "trainwright.linter.output.plain_json:render_json",
    "sarif": "trainwright.linter.output.sarif:render_sarif",
    "github": "trainwright.linter.output.github:render_github",
    "junit": "trainwright.linter.output.junit:render_junit",
}


def render(name: str, findings: Sequence[Finding], contents: Mapping[str, str]) -> str:
    """The findings in one of ``FORMATS``. ``contents`` holds every file that was linted, clean ones included."""
    module, _, function = FORMATS[name].partition(":")
    text: str = getattr(importlib.import_module(module), function)(findings, contents)
    return text
