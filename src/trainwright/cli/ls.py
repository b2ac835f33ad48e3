"""``trainwright ls``: every run, a line each."""

from __future__ import annotations

import shutil
import time
from typing import Annotated, Any

import typer

from trainwright.cli.output import Output, OutputOption, RunsOption, emit


def ls(
    live: Annotated[bool, typer.Option("--live", help="Only runs that have not ended.")] = False,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """List runs, oldest first, with where each stands."""
    from trainwright.runs.describe import row, table
    from trainwright.runs.folder import default_runs, list_runs
    from trainwright.runs.steps import last_step

    where = (runs or default_runs()).absolute()
    now = time.time()
    values: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for folder in list_runs(where):
        name, state = _look(folder)
        if live and state.final:
            continue
        step = last_step(folder)
        rows.append(row(folder.run_id, name, state, step, now))
        values.append({"run": folder.run_id, "target": name, **state.to_dict(), "step": step.step if step else None})
    nothing = f"no runs in {where}; start one with `trainwright run SPEC`"
    emit(values, table(rows, shutil.get_terminal_size((160, 24)).columns) if rows else nothing, output)


def _look(folder: Any) -> tuple[str, Any]:
    """Target and state; one damaged run must not hide the others."""
    from trainwright import targets
    from trainwright.errors import TrainwrightError
    from trainwright.runs.state import JobState, Reason

    try:
        target, ref = targets.of_run(folder)
        return target.name, target.status(ref)
    except TrainwrightError as error:
        sentence = str(error).splitlines()[0]
        return "?", JobState("FAILED", Reason("unreadable", "unknown", sentence, "start the run again from its spec"))
