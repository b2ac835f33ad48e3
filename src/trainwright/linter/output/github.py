"""Findings as workflow commands: GitHub Actions shows each beside its line in the changed files of a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.linter.finding import Finding

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render_github(findings: Sequence[Finding], contents: Mapping[str, str]) -> str:
    """One line for each finding; nothing at all when there is none."""
    return "\n".join(_command(finding) for finding in findings)


def _command(finding: Finding) -> str:
    properties = {
        "file": finding.path,
        "line": str(finding.line),
        "endLine": str(finding.end_line),
        "title": f"{finding.rule} {finding.category}",
    }
    if finding.line == finding.end_line:  # the runner refuses columns that span lines
        properties |= {"col": str(finding.column), "endColumn": str(finding.end_column)}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    message = f"{finding.why}. Instead: {finding.instead}"
    return f"::{_COMMANDS[finding.severity]} {listed}::{_data(message)}"


def _data(text: str) -> str:
    """Escapes of a command's message: it must stay on one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escapes of a command's property: colons and commas separate properties."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
