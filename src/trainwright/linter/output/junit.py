"""Findings as JUnit XML, which most CI systems show as test results: a suite for each file, a case for each finding.

A file without findings is one case that passed. Errors and warnings are failures; a note is a case that passed, with
its text as output. The dialect is the one that Jenkins and GitLab read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from trainwright.linter.finding import Finding

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(findings: Sequence[Finding], contents: Mapping[str, str]) -> str:
    """A ``testsuites`` document."""
    by_path: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_path[finding.path].append(finding)
    root = ElementTree.Element("testsuites", name="trainwright lint")
    failed = 0
    for path in sorted({*contents, *by_path}):
        cases = by_path[path]
        failures = sum(finding.severity != "note" for finding in cases)
        failed += failures
        suite = ElementTree.SubElement(
            root, "testsuite", name=_legal(path), tests=str(max(1, len(cases))), failures=str(failures), errors="0"
        )
        for finding in cases:
            _case(suite, finding)
        if not cases:
            ElementTree.SubElement(suite, "testcase", classname=_legal(path), name="lint")
    root.set("tests", str(sum(int(suite.get("tests", "0")) for suite in root)))
    root.set("failures", str(failed))
    root.set("errors", "0")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode")


def _case(suite: ElementTree.Element, finding: Finding) -> None:
    place = f"{finding.path}:{finding.line}:{finding.column}"
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_legal(finding.path),
        name=f"{finding.rule} line {finding.line} column {finding.column}",
    )
    text = _legal(f"{place}: {finding.severity}: {finding.why}\nfound: {finding.quoted}\ninstead: {finding.instead}")
    if finding.severity == "note":
        ElementTree.SubElement(case, "system-out").text = text
    else:
        failure = ElementTree.SubElement(case, "failure", type=finding.severity, message=_legal(finding.why))
        failure.text = text


def _legal(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold in any form."""
    return _NOT_XML.sub("\ufffd", text)
