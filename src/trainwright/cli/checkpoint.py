"""``trainwright checkpoint ls|verify|prune|import``: list, prove, thin out, take over checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunsOption, emit

WhereArgument = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="Run id, its beginning, or a folder of checkpoints. Default: the newest run."),
]


def ls(where: WhereArgument = None, runs: RunsOption = None, output: OutputOption = Output.text) -> None:
    """List checkpoints, newest first, with the damage that can be seen without reading their data."""
    from trainwright.checkpoints.inventory import inventory

    folder = _folder(where, runs)
    rows = inventory(folder)
    text = "\n".join(map(str, rows)) or f"no checkpoints in {folder}"
    emit([row.to_dict() for row in rows], text, output)


def verify(
    where: WhereArgument = None,
    step: Annotated[int | None, typer.Option(help="Check the checkpoint of this step. Default: the newest.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Check every checkpoint.")] = False,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Read every byte of a checkpoint and compare it with what was saved. Exit 1 when anything is damaged."""
    from trainwright.checkpoints.inventory import check

    with _progress() as progress:
        rows = list(check(_folder(where, runs), step=step, every=every, progress=progress))
    emit([row.to_dict() for row in rows], "\n".join(map(str, rows)), output)
    if any(row.damage for row in rows):
        raise typer.Exit(1)


def prune(
    where: WhereArgument = None,
    keep: Annotated[int, typer.Option(min=1, help="Keep the newest so many.")] = 2,
    keep_every: Annotated[int | None, typer.Option(min=1, help="Keep also steps that are multiples of this.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; delete nothing.")] = False,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Delete old checkpoints and what crashed saves left. Nothing goes unless the newest one verifies."""
    from trainwright.checkpoints.inventory import prune as delete

    with _progress() as progress:
        done = delete(_folder(where, runs), keep=keep, keep_every=keep_every, dry_run=dry_run, progress=progress)
    names = ", ".join([*(f"step {step}" for step in done.steps), *done.leftovers]) or "nothing"
    verb = "would delete" if dry_run else "deleted"
    text = f"step {done.verified} is whole; {verb} {names} ({done.bytes / 2**20:,.1f} MiB)"
    emit({**asdict(done), "dry_run": dry_run}, text, output)


def import_(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="What DeepSpeed's engine.save_checkpoint wrote.")],
    to: Annotated[
        str, typer.Argument(metavar="RUN", help="Run id, its beginning, or a new folder for the checkpoint.")
    ],
    tag: Annotated[str | None, typer.Option(help="Which of several saves. Default: what `latest` names.")] = None,
    strip: Annotated[str, typer.Option(help="Take this off the front of every name, such as `module.`.")] = "",
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Make a checkpoint of DeepSpeed's own (ZeRO 1 to 3) one of a run, which `trainwright resume` goes on from.

    Weights, optimizer state and the number of steps and samples are taken over. Nothing in its files is run.
    """
    from trainwright.cli.working import working
    from trainwright.errors import InputError, MissingExtra
    from trainwright.runs.folder import find

    try:
        from trainwright.training.from_deepspeed import convert
    except ImportError:
        raise MissingExtra("reading a checkpoint's weights", "train") from None
    target, digest = Path(to).absolute(), ""
    try:
        run = find(to, runs)
    except InputError:
        if not ("/" in to or target.is_dir()):
            raise
    else:
        target, digest = run.checkpoints, run.spec().sha256
    with working("reading the checkpoint"):
        done = convert(source, target, tag=tag, strip=strip, spec_sha256=digest)
    text = (
        f"step {done.step}, {done.samples} samples: {done.tensors} tensors, {done.parameters:,} trained parameters, "
        f"{', '.join(done.optimizer) or 'no optimizer state'}, from ZeRO {done.stage} on {done.ranks} ranks\n"
        f"{done.folder}"
    )
    emit(done.to_dict(), text, output)


def _folder(where: str | None, runs: Path | None) -> Path:
    """The folder of checkpoints that a user means: one given as it is, or that of a run."""
    from trainwright.checkpoints.format import step_folders
    from trainwright.runs.folder import find

    given = Path(where) if where else None
    if given and given.is_dir() and step_folders(given):
        return given
    return find(where, runs).checkpoints


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A line of bytes verified, on standard error, where a person watches."""
    from trainwright.cli.output import is_terminal

    if not is_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verifying")
        yield lambda done, total: bar.update(task, completed=done, total=total)
