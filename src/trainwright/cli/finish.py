"""``trainwright finish``: the stage after training, started by a launcher."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, emit


def finish(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run whose training has ended.")],
    output: OutputOption = Output.text,
) -> None:
    """Choose the best checkpoint, export and measure it, ask the gate, and register the model. Exit 1 if refused."""
    from trainwright.cli.working import hush
    from trainwright.errors import AnswerNo
    from trainwright.registry.finish import finish as finish_run
    from trainwright.registry.words import finished_lines
    from trainwright.runs.folder import RunFolder
    from trainwright.runs.progress import ProgressFile

    hush()
    run = RunFolder(run_dir.absolute())
    try:
        done = finish_run(run, ProgressFile(run.progress))
    except AnswerNo:
        _report(run)  # a refused model is when a person looks, and no later stage runs any more
        raise
    emit(done.to_dict(), "\n".join(finished_lines(done)), output)


def _report(run: object) -> None:
    from trainwright.errors import TrainwrightError
    from trainwright.reports.report import write_report
    from trainwright.runs.folder import RunFolder

    assert isinstance(run, RunFolder)
    try:
        write_report(run)
    except TrainwrightError as error:
        print(f"no report: {error}", file=sys.stderr)
