"""``trainwright ls``: every run, a line each."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainwright.cli.output import Output, OutputOption, RunsOption, emit

if TYPE_CHECKING:
    from trainwright.errors import TrainwrightError
    from trainwright.runs.folder import RunFolder
    from trainwright.runs.state import JobRef, JobState
    from trainwright.targets.contract import Target


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
    folders = list_runs(where)
    for folder, (name, state) in zip(folders, _look(folders), strict=True):
        if live and state.final:
            continue
        step = last_step(folder)
        rows.append(row(folder.run_id, name, state, step, now))
        values.append({"run": folder.run_id, "target": name, **state.to_dict(), "step": step.step if step else None})
    nothing = f"no runs in {where}; start one with `trainwright run SPEC`"
    if folders:
        nothing = f"none of the {len(folders)} runs in {where} is live"
    emit(values, table(rows, shutil.get_terminal_size((160, 24)).columns) if rows else nothing, output)


def _look(folders: list[RunFolder]) -> list[tuple[str, JobState]]:
    """Target and state of each run; a target is asked once for all of its runs, and one that fails hides no other."""
    from trainwright import targets
    from trainwright.errors import TrainwrightError

    found: list[tuple[str, JobState] | None] = [None] * len(folders)
    asked: dict[str, tuple[Target, list[tuple[int, JobRef]]]] = {}
    for number, folder in enumerate(folders):
        try:
            target, ref = targets.of_run(folder)
            asked.setdefault(target.name, (target, []))[1].append((number, ref))
        except TrainwrightError as error:
            found[number] = "?", _unreadable(error)
    for name, (target, refs) in asked.items():
        for number, state in _states(target, refs):
            found[number] = name, state
    return [one for one in found if one is not None]


def _states(target: Target, refs: list[tuple[int, JobRef]]) -> Iterator[tuple[int, JobState]]:
    """Together; where that fails, one at a time, so that only a damaged run is said to be one."""
    from trainwright.errors import SystemUnreachable, TrainwrightError

    try:
        states = target.statuses([ref for _, ref in refs])
        yield from zip((number for number, _ in refs), states, strict=True)
        return
    except TrainwrightError as error:
        if len(refs) == 1 or isinstance(error, SystemUnreachable):  # who does not answer is not asked for each
            yield from ((number, _unreadable(error)) for number, _ in refs)
            return
    for one in refs:
        yield from _states(target, [one])


def _unreadable(error: TrainwrightError) -> JobState:
    from trainwright.errors import SystemUnreachable
    from trainwright.runs.state import JobState, Reason

    sentence = str(error).splitlines()[0]
    if isinstance(error, SystemUnreachable):
        return JobState("PENDING", Reason("unreachable", "network", sentence, "ask again", "after-wait"))
    return JobState("FAILED", Reason("unreadable", "unknown", sentence, "start the run again from its spec"))
