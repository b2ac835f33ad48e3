"""Recall of the linter on a folder of cases.

Prints, per case, the expected text beside our findings; then recall, misses and errors that no case deserves.
``--cases DIR`` reads a folder with ``expected.tsv`` (case_file, severity error|warn|none, expected_finding, …, and
optionally ``rule``: the ids, separated by "|", of which one must fire). Without ``rule`` a case counts as found when
any finding has the expected severity or above: read the table to judge whether it is the right one.
``--document FILE`` reads a guide with snippets and compares with the audited defects of ``lint_document``.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

from lint_document import defects, snippets

from trainwright.linter.engine import Options, lint_paths, lint_texts
from trainwright.linter.finding import Finding

RANK = {"note": 0, "warn": 1, "warning": 1, "error": 2, "none": 3}


def is_found(row: dict[str, str], findings: list[Finding]) -> bool:
    """Whether the case's defect is among the findings, at its severity or above."""
    wanted = [rule for rule in (row.get("rule") or "").split("|") if rule]
    severe = [f for f in findings if RANK[f.severity] >= RANK[row["severity"]]]
    return any(not wanted or f.rule in wanted for f in severe)


def extra_errors(row: dict[str, str], findings: list[Finding]) -> list[Finding]:
    """Errors of a case that should have none, or (when the rule is named) by rules other than the expected."""
    wanted = [rule for rule in (row.get("rule") or "").split("|") if rule]
    errors = [f for f in findings if f.severity == "error"]
    if row["severity"] == "none":
        return errors
    return [f for f in errors if wanted and f.rule not in wanted]


def read_document(path: Path, only: str, require: float) -> int:
    """The same for the snippets of a document: 1 when recall is below ``require``."""
    found = snippets(path.read_text("utf-8"))
    files = {snippet.file: snippet for snippet in found}
    findings = lint_texts({snippet.file: snippet.text for snippet in found}, Options())
    expected = defects()
    everywhere = {f.rule for f in findings}
    hits = 0
    for snippet in found:
        own = [f for f in findings if files[f.path] is snippet]
        fired = {f.rule for f in own}
        wanted = [d for d in expected if d.snippet == snippet.name]
        missed = [d for d in wanted if not (everywhere if d.anywhere else fired) & set(d.rules)]
        hits += len(wanted) - len(missed)
        if only == "all" or missed:
            print(f"\n{snippet.name}, line {snippet.line}: {len(wanted) - len(missed)} of {len(wanted)} defects")
            for defect in missed:
                reason = defect.not_checkable or f"{' or '.join(defect.rules) or 'no rule'}"
                print(f"     MISS {defect.number}: {reason}")
        if only == "all":
            for f in own:
                print(f"     {snippet.line + f.line} {f.severity} {f.rule} {f.why}; {f.instead}")
    recall = 100.0 * hits / max(1, len(expected))
    hidden = sum(1 for defect in expected if defect.not_checkable)
    print(f"\nrecall {recall:.1f} % ({hits} of {len(expected)} defects, of which files cannot show {hidden}), in")
    print(f"{len(found)} snippets")
    return 0 if recall >= require else 1


def main() -> int:
    """Print the table and the figures; 1 when recall is below ``--require``."""
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--cases", type=Path)
    source.add_argument("--document", type=Path)
    parser.add_argument("--only", choices=["all", "missed", "extra"], default="all")
    parser.add_argument("--require", type=float, default=0.0, help="lowest recall, in percent, that exits with 0")
    options = parser.parse_args()
    if options.document is not None:
        return read_document(options.document, options.only, options.require)
    with (options.cases / "expected.tsv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    defects = [row for row in rows if row["severity"] != "none"]
    missed: list[str] = []
    extra: list[str] = []
    started = time.perf_counter()
    for row in rows:
        findings = lint_paths([options.cases / row["case_file"]], Options())
        found = row["severity"] == "none" or is_found(row, findings)
        surplus = extra_errors(row, findings)
        if not found:
            missed.append(row["case_file"])
        extra.extend(f"{row['case_file']}: {f.rule} {f.why}" for f in surplus)
        if options.only == "all" or (options.only == "missed" and not found) or (options.only == "extra" and surplus):
            print(f"\n{'ok  ' if found and not surplus else 'MISS' if not found else 'EXTRA'} {row['case_file']}")
            print(f"     expected {row['severity']}: {row['expected_finding']}")
            for f in findings:
                print(f"     {f.line}:{f.column} {f.severity} {f.rule} {f.quoted!r}: {f.why}; {f.instead}")
    seconds = time.perf_counter() - started
    recall = 100.0 * (len(defects) - len(missed)) / max(1, len(defects))
    hits = len(defects) - len(missed)
    print(f"\nrecall {recall:.1f} % ({hits} of {len(defects)} defects), {len(extra)} errors too many,")
    print(f"{len(rows)} files in {seconds:.2f} s")
    for name in missed:
        print(f"missed: {name}")
    for line in extra:
        print(f"extra: {line}")
    return 0 if recall >= options.require else 1


if __name__ == "__main__":
    raise SystemExit(main())
