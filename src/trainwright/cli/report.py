"""``trainwright report``: one run as a page, or several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunsOption, emit


def report(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="RUN…", help="Runs. Default: the newest; several are compared.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", help="File to write.")] = None,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Write one HTML file that opens without a network: report.html of a run, or comparison.html beside the runs."""
    from trainwright.reports.report import write_comparison, write_report
    from trainwright.runs.folder import find

    found = [find(name, runs) for name in names] if names else [find(None, runs)]
    target = to.absolute() if to else None
    if len(found) == 1:
        path = write_report(found[0], target)
    else:
        path = write_comparison(found, target or found[0].root.parent / "comparison.html")
    emit({"report": str(path), "runs": [run.run_id for run in found]}, str(path), output)
