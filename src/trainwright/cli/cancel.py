"""``trainwright cancel``: save and stop."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunArgument, RunsOption
from trainwright.cli.status import show
from trainwright.runs.exit_codes import Exit


def cancel(
    run: RunArgument = None,
    grace: Annotated[
        str | None, typer.Option("--grace", metavar="TIME", help="Time to save before it is killed, such as 5m.")
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Kill at once; nothing is saved.")] = False,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Stop a run: training finishes its step and saves, then ends. `trainwright resume` goes on from there."""
    from trainwright import targets
    from trainwright.errors import InputError, Problem
    from trainwright.runs.folder import find
    from trainwright.spec.units import Duration

    try:
        seconds = 0.0 if now else Duration.parse(grace).seconds if grace is not None else None
    except ValueError as error:
        raise InputError([Problem("", field="--grace", what=str(error))]) from None
    folder = find(run, runs)
    target, ref = targets.of_run(folder)
    try:
        state = target.cancel(ref, grace_seconds=seconds)
    except KeyboardInterrupt:
        print(f"\nThe cancel goes on; see trainwright status {folder.run_id}", file=sys.stderr)
        raise typer.Exit(Exit.INTERRUPTED) from None
    show(target, ref, state, output)
