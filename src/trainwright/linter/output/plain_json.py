"""Findings as a JSON list, each under the names of the contract (``rule``, ``severity``, ``path``, ``line``, …)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from trainwright.linter.finding import Finding


def render_json(findings: Sequence[Finding], contents: Mapping[str, str]) -> str:
    """One object for each finding."""
    return json.dumps([finding.to_dict() for finding in findings], indent=2)
