"""``trainwright status``: where a run stands, and why."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from trainwright.cli.output import Output, OutputOption, RunArgument, RunsOption, emit
from trainwright.runs.exit_codes import Exit
from trainwright.runs.state import JobRef, JobState

_PAUSE = 1.0  # seconds between two looks


def status(
    run: RunArgument = None,
    watch: Annotated[bool, typer.Option("--watch", help="Print every change until the run ends.")] = False,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Say where a run stands, the first failing rank's first error on top, and what to do. Exit 1 if it FAILED."""
    from trainwright import targets
    from trainwright.runs.folder import find

    target, ref = targets.of_run(find(run, runs))
    state = target.status(ref)
    more = getattr(target, "hints", None)
    show(target, ref, state, output, *(more(ref) if more is not None else ()))
    while watch and not state.final:
        time.sleep(_PAUSE)
        before, state = state, target.status(ref)
        if state != before:
            show(target, ref, state, output)
    if state.phase == "FAILED":
        raise typer.Exit(Exit.NO)


def show(target: Any, ref: JobRef, state: JobState, output: Output, *hints: str) -> None:
    """Print a state, how far the run is, and what can be done next."""
    from dataclasses import asdict

    from trainwright.runs.describe import describe
    from trainwright.runs.steps import last_step, saved_step

    folder = target.folder(ref)
    step, saved = last_step(folder), saved_step(folder)
    value = {"run": folder.run_id, "ref": str(ref), "dir": str(folder.root), **state.to_dict()}
    value |= {"progress": asdict(step) if step else None, "saved_step": saved}
    lines = describe(folder.run_id, state, step, saved, time.time())
    emit(value, "\n".join([*lines, *(f"  {hint}" for hint in hints)]), output)
