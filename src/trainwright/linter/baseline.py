"""Baseline: the findings that a project already knows and lives with, so that only new ones are reported.

A finding is recognised by its rule, its file and the text found, not by its line: it stays known when lines move, and
becomes new when its text changes or when there is one more of it. Takes and gives Findings; the file is JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.linter.finding import Finding

_VERSION = 1


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    """One hex digest for each finding; equal ones of the same file are numbered in order."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for finding in findings:
        key = finding.rule, Path(finding.path).as_posix(), finding.quoted
        seen[key] += 1
        found.append(hashlib.sha256("\0".join((*key, str(seen[key]))).encode("utf-8", "replace")).hexdigest()[:32])
    return found


def write_baseline(path: Path, findings: Sequence[Finding]) -> None:
    """Write what is known from now on. Paths are kept relative to the baseline's folder."""
    rows = [
        {"fingerprint": fingerprint, "rule": finding.rule, "path": finding.path, "quoted": finding.quoted}
        for finding, fingerprint in _identified(path, findings)
    ]
    text = json.dumps({"version": _VERSION, "findings": rows}, indent=2) + "\n"
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InputError([Problem(str(path), what=f"cannot be written: {error.strerror}")]) from error


def without_known(path: Path, findings: Sequence[Finding]) -> tuple[list[Finding], int]:
    """The findings that the baseline does not know, and how many of its own no longer occur.

    Raises InputError when the file is missing or is no baseline.
    """
    known = _read(path)
    identified = _identified(path, findings)
    new = [original for original, (_, digest) in zip(findings, identified, strict=True) if digest not in known]
    return new, len(known - {digest for _, digest in identified})


def _identified(path: Path, findings: Sequence[Finding]) -> list[tuple[Finding, str]]:
    folder = path.absolute().parent
    moved = [replace(f, path=Path(os.path.relpath(f.path, folder)).as_posix()) for f in findings]
    return list(zip(moved, fingerprints(moved), strict=True))


def _read(path: Path) -> set[str]:
    instead = "write one with --write-baseline"
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError([Problem(str(path), what=f"cannot be read: {error.strerror}", instead=instead)]) from error
    except (ValueError, RecursionError) as error:
        what = f"is not JSON: {getattr(error, 'msg', error)}"
        place = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        raise InputError([Problem(str(path), *place, what=what, instead=instead)]) from error
    rows = content.get("findings") if isinstance(content, dict) and content.get("version") == _VERSION else None
    if not isinstance(rows, list) or not all(isinstance(r, dict) and "fingerprint" in r for r in rows):
        raise InputError([Problem(str(path), what=f"is no baseline of version {_VERSION}", instead=instead)])
    return {str(row["fingerprint"]) for row in rows}
