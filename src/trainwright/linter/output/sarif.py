"""Findings as SARIF 2.1.0, which code scanning (GitHub, GitLab, Azure DevOps) and editors read.

Columns count Unicode code points. A fingerprint is made of the rule, the file and the text found, so that a finding
keeps its identity when lines move. Files that changed by ``fix`` edits are given as replacements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from trainwright import __version__
from trainwright.linter.baseline import fingerprints
from trainwright.linter.engine import load_rule
from trainwright.linter.finding import Edit, Finding
from trainwright.linter.pages import page
from trainwright.linter.rules import RULES

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render_sarif(findings: Sequence[Finding], contents: Mapping[str, str]) -> str:
    """A log with one run."""
    ids = sorted({finding.rule for finding in findings})
    driver = {
        "name": "trainwright",
        "semanticVersion": __version__,
        "rules": [_descriptor(rule_id, findings) for rule_id in ids],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, ids.index(finding.rule), fingerprint)
            for finding, fingerprint in zip(findings, fingerprints(findings), strict=True)
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _descriptor(rule_id: str, findings: Sequence[Finding]) -> dict[str, Any]:
    if rule_id not in RULES:
        return {"id": rule_id}
    rule = load_rule(rule_id)
    text = page(rule_id)
    return {
        "id": rule_id,
        "name": type(rule).__name__,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.__doc__ or rule.summary},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"tags": [rule.category], "evidence": rule.evidence, "source": rule.source},
    }


def _result(finding: Finding, index: int, fingerprint: str) -> dict[str, Any]:
    artifact = {"uri": _uri(finding.path)}
    region = _region(finding.line, finding.column, finding.end_line, finding.end_column)
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": f"{finding.why}. Instead: {finding.instead}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": artifact,
                    "region": {**region, "snippet": {"text": finding.quoted}},
                }
            }
        ],
        "partialFingerprints": {"trainwright/v1": fingerprint},
    }
    if finding.fix:
        replacements = [_replacement(edit) for edit in finding.fix]
        result["fixes"] = [
            {
                "description": {"text": finding.instead},
                "artifactChanges": [{"artifactLocation": artifact, "replacements": replacements}],
            }
        ]
    return result


def _region(line: int, column: int, end_line: int, end_column: int) -> dict[str, int]:
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def _replacement(edit: Edit) -> dict[str, Any]:
    return {
        "deletedRegion": _region(edit.line, edit.column, edit.end_line, edit.end_column),
        "insertedContent": {"text": edit.text},
    }


def _uri(path: str) -> str:
    """A relative reference, or a file URI for an absolute path."""
    quoted = quote(PurePath(path).as_posix())
    return f"file://{quoted}" if quoted.startswith("/") else quoted
