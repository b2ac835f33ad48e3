"""Each output format holds what its readers require."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from trainwright.linter.engine import Options, lint_texts
from trainwright.linter.finding import Finding
from trainwright.linter.output import FORMATS, render

TEXTS = {
    "deploy/job, one.yaml": (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\nspec:\n  pytorchReplicaSpecs:\n"
        "    Worker:\n      replicas: 2\n      template:\n        spec:\n          containers:\n"
        "            - name: trainer\n              image: example.com/train:1\n"
        "              resources: {limits: {nvidia.com/gpu: 8}}\n"
    ),
    "clean.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: empty}\n",
}
ODD = Finding("TW999", "files", "note", "a:b.sh", 1, 2, 3, 4, "\x1b[31m\x00", "100 %: a,\nb", "<c> & \x07")


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    found = lint_texts(TEXTS, Options(strict=True))
    assert {"TW701"} <= {f.rule for f in found}
    return [*found, ODD]


def test_sarif_has_the_fields_that_the_standard_requires(findings: list[Finding]) -> None:
    log = json.loads(render("sarif", findings, TEXTS))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "trainwright"
    assert run["columnKind"] == "unicodeCodePoints"
    assert len(run["results"]) == len(findings)
    for result, finding in zip(run["results"], findings, strict=True):
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == finding.rule
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert re.fullmatch(r"[\w./%-]+", place["artifactLocation"]["uri"])
        region = place["region"]
        assert (region["startLine"], region["startColumn"]) == (finding.line, finding.column)
        assert (region["endLine"], region["endColumn"]) >= (region["startLine"], region["startColumn"])
    for rule in driver["rules"]:
        assert rule["id"]
        assert "shortDescription" not in rule or rule["shortDescription"]["text"]


def test_sarif_carries_fixes_as_replacements(findings: list[Finding]) -> None:
    results = json.loads(render("sarif", findings, TEXTS))["runs"][0]["results"]
    change = next(r for r in results if r["ruleId"] == "TW701")["fixes"][0]["artifactChanges"][0]
    assert change["artifactLocation"]["uri"] == "deploy/job%2C%20one.yaml"
    (replacement,) = change["replacements"]
    assert replacement["insertedContent"] == {"text": "pytorch"}
    assert replacement["deletedRegion"]["startLine"] == 11


def test_a_fingerprint_survives_lines_that_move_and_tells_equal_findings_apart() -> None:
    def prints(text: str) -> list[str]:
        log = json.loads(render("sarif", lint_texts({"a.yaml": text}, Options(select=["TW004"])), {}))
        return [result["partialFingerprints"]["trainwright/v1"] for result in log["runs"][0]["results"]]

    text = "apiVersion: v1\nkind: ConfigMap\ndata: {a: 1, a: 2, a: 3}\n"
    assert len(set(prints(text))) == 2
    assert prints(text) == prints(f"# a comment\n\n{text}")


def test_github_commands_stay_on_one_line_each_and_escape_what_separates(findings: list[Finding]) -> None:
    lines = render("github", findings, TEXTS).split("\n")
    assert len(lines) == len(findings)
    for line, finding in zip(lines, findings, strict=True):
        match = re.fullmatch(r"::(error|warning|notice) (.*?)::(.*)", line)
        assert match
        properties = dict(pair.split("=", 1) for pair in match[2].split(","))
        assert int(properties["line"]) == finding.line
        assert properties["file"].replace("%2C", ",").replace("%3A", ":") == finding.path
        assert ("col" in properties) == (finding.line == finding.end_line)
    assert lines[-1].startswith("::notice file=a%3Ab.sh,line=1,endLine=3,title=TW999 files::100 %25: a,%0Ab")


def test_junit_has_a_suite_for_each_file_and_its_counts_add_up(findings: list[Finding]) -> None:
    root = ElementTree.fromstring(render("junit", findings, TEXTS))
    assert root.tag == "testsuites"
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {*TEXTS, "a:b.sh"}
    assert int(root.get("failures", "")) == sum(f.severity != "note" for f in findings)
    for suite in root:
        cases = list(suite)
        assert int(suite.get("tests", "")) == len(cases) >= 1
        assert int(suite.get("failures", "")) == sum(case.find("failure") is not None for case in cases)
        assert all(case.get("name") and case.get("classname") for case in cases)
    assert suites["clean.yaml"][0].find("failure") is None
    assert suites["a:b.sh"][0].find("failure") is None


def test_json_has_the_names_of_the_contract(findings: list[Finding]) -> None:
    rows = json.loads(render("json", findings, TEXTS))
    names = ["rule", "category", "severity", "path", "line", "column"]
    names += ["end_line", "end_column", "quoted", "why", "instead", "fix"]
    assert all(list(row) == names for row in rows)
    assert rows[0]["fix"] is None or rows[0]["fix"][0].keys() == {"line", "column", "end_line", "end_column", "text"}


def test_text_lets_no_file_command_the_terminal() -> None:
    text = render("text", [ODD], {"a:b.sh": "echo \x1b]0;title\x07 \x1b[2J"})
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)


@pytest.mark.parametrize("name", FORMATS)
def test_no_finding_is_no_trouble_in_any_format(name: str) -> None:
    assert isinstance(render(name, [], {"clean.yaml": ""}), str)
