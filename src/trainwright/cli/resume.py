"""``trainwright resume``: go on with a run that was cancelled, stopped or failed."""

from __future__ import annotations

from trainwright.cli.output import Output, OutputOption, RunArgument, RunsOption, SetOption
from trainwright.cli.status import show


def resume(
    run: RunArgument = None,
    set_: SetOption = None,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Go on from the newest good checkpoint; `--set` takes fields that keep the losses on one curve.

    These are duration, logging, checkpoints, evaluation, target, layout, retries and registration.
    """
    from trainwright import api, targets
    from trainwright.runs.folder import find

    folder = find(run, runs)
    target, ref = targets.of_run(folder)
    ref = api.resume(ref, set_ or ())
    state = target.status(ref)
    show(target, ref, state, output, *([] if state.final else [f"follow: trainwright logs -f {folder.run_id}"]))
