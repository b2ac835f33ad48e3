"""Write reports: one run into its own folder, several runs side by side into a file of their own.

Takes run folders, gives the path of one HTML file that holds everything it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.reports.compare_page import compare_page
from trainwright.reports.record import read_run
from trainwright.reports.run_page import run_page
from trainwright.runs.folder import RunFolder, write_atomically

#: As many as there are colours that an eye keeps apart.
MOST_RUNS = 8


def write_report(run: RunFolder, target: Path | None = None) -> Path:
    """Write the report of one run, as ``report.html`` in its folder unless told otherwise."""
    return _write(target or run.report, run_page(read_run(run)))


def write_comparison(runs: Sequence[RunFolder], target: Path) -> Path:
    """Write a comparison of two to eight runs. The same run twice is one run."""
    distinct = list({run.root: run for run in runs}.values())
    if not 2 <= len(distinct) <= MOST_RUNS:
        what = f"{len(distinct)} runs cannot be compared"
        raise InputError([Problem("report", what=what, instead=f"name 2 to {MOST_RUNS} runs")])
    return _write(target, compare_page([read_run(run) for run in distinct]))


def _write(target: Path, page: str) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, page)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise InputError([Problem(str(target), what=what, instead="name another file with --to")]) from error
    return target
