"""``trainwright evaluate``: measure a run's model again."""

from __future__ import annotations

from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunArgument, RunsOption, emit


def evaluate(
    run: RunArgument = None,
    step: Annotated[int | None, typer.Option("--step", help="Step of the checkpoint. Default: the best.")] = None,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Measure the held-out loss and the spec's tasks of a checkpoint. Nothing of the run is changed."""
    from trainwright.cli.working import working
    from trainwright.evaluation.results import finite
    from trainwright.registry.measure import measure
    from trainwright.registry.words import held_out_line, task_line
    from trainwright.runs.folder import find

    with working("reading the checkpoint") as progress:
        result = measure(find(run, runs), step, progress)
    lines = [f"step {result.step}: {result.chosen}"]
    lines += [held_out_line(result.held_out.result) if result.held_out else "nothing is held out"]
    emit(finite(result.to_dict()), "\n".join([*lines, *map(task_line, result.tasks)]), output)
