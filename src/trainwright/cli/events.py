"""``trainwright events``: what happened to a run."""

from __future__ import annotations

import time

from trainwright.cli.output import Output, OutputOption, RunArgument, RunsOption, emit


def events(run: RunArgument = None, runs: RunsOption = None, output: OutputOption = Output.text) -> None:
    """List starts, checkpoints, signals, failures and restarts in order of time: clock, attempt, who, what."""
    from trainwright import targets
    from trainwright.runs.describe import event_line
    from trainwright.runs.folder import find

    target, ref = targets.of_run(find(run, runs))
    found = target.events(ref)
    lines = [event_line(event, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["t"]))) for event in found]
    emit(found, "\n".join(lines) or "nothing has happened yet", output)
