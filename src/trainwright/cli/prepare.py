"""``trainwright prepare``: tokenise and pack a run's data, or that of a spec before any run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.cli.output import Output, OutputOption, SetOption, emit, is_terminal

if TYPE_CHECKING:
    from rich.progress import TaskID

    from trainwright.runs.progress import Progress


def prepare(
    path: Annotated[Path, typer.Argument(metavar="RUN_DIR|SPEC", help="Folder of a run, or a spec file.")],
    overrides: SetOption = None,
    verify: Annotated[bool, typer.Option("--verify", help="Also check the hash of every file.")] = False,
    output: OutputOption = Output.text,
) -> None:
    """Tokenise and pack the data. What is already prepared is found, not made again."""
    from trainwright.data.prepare import prepare as prepare_data
    from trainwright.data.report import damaged, summary
    from trainwright.data.run_inputs import prepare_run
    from trainwright.runs.folder import RunFolder, default_runs
    from trainwright.runs.progress import ProgressFile
    from trainwright.spec.load import load

    if path.is_dir():
        run = RunFolder(path.absolute())
        prepared = prepare_run(run, ProgressFile(run.progress))
    else:
        spec = load(path, overrides or ()).spec
        with _bar() as progress:
            prepared = prepare_data(spec, Path(spec.storage or default_runs()) / "data", progress)
    if verify and (wrong := prepared.verify()):
        raise damaged(prepared, wrong)
    emit({"folder": str(prepared.folder), **asdict(prepared.manifest)}, summary(prepared), output)


@contextmanager
def _bar() -> Iterator[Progress]:
    """A bar with the time left for a person at a terminal; silence for everything else."""
    from trainwright.data.progress import silent

    if not is_terminal():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total)

        yield show
