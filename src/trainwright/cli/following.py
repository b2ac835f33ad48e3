"""Show a run until it ends: a live line for a person at a terminal, plain lines for everything else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trainwright.cli.output import Output, as_typed, emit, is_terminal
from trainwright.runs.exit_codes import Exit

if TYPE_CHECKING:
    from trainwright.runs.folder import RunFolder

_PAUSE = 0.3  # seconds between two looks at the files
_QUIET = 10.0  # seconds after which a watcher without a terminal is told that it goes on


def follow_to_the_end(target: Any, ref: Any, output: Output) -> None:
    """Print what happens until the run ends, then where everything is. Ctrl-C stops following, not the run."""
    from trainwright.reports.follow import Follower
    from trainwright.reports.summary import summary, summary_lines

    folder = target.folder(ref)
    state = target.status(ref)
    follower = Follower(folder, state.attempt)
    changed = _changed(folder) if state.final else []  # it was there already, and is only told about
    if output is Output.text and not state.final:
        try:
            state = _show(target, ref, follower)
        except KeyboardInterrupt:
            name = folder.run_id
            ways = f"Watch it: trainwright logs -f {name}   Stop it: trainwright cancel {name}"
            print(f"\nthe run goes on. {as_typed(ways)}")
            raise typer.Exit(Exit.INTERRUPTED) from None
    while not state.final:
        time.sleep(_PAUSE)
        state = target.status(ref)
    lines = summary_lines(folder, state)
    if changed:
        lines.insert(-1, f"note    the data changed since ({', '.join(changed)}): --fresh trains on it")
    lines[-1] = as_typed(lines[-1])
    emit({**summary(folder, state), "changed_sources": changed}, "\n".join(lines), output)
    raise typer.Exit(Exit.YES if state.phase == "SUCCEEDED" else Exit.NO)


def _changed(folder: RunFolder) -> list[str]:
    """Sources that are no longer what this run was trained on. Nothing where the data was prepared elsewhere."""
    from trainwright.data.changes import changed_sources
    from trainwright.runs.folder import read_json

    record = read_json(folder.data)
    if record is None or not Path(str(record.get("folder"))).is_dir():
        return []
    return changed_sources(folder.spec(), record, folder.root.parent / "data")


def _show(target: Any, ref: Any, follower: Any) -> Any:
    return _show_live(target, ref, follower) if is_terminal() else _show_plain(target, ref, follower)


def _show_plain(target: Any, ref: Any, follower: Any) -> Any:
    told, said = time.monotonic(), ""
    while True:
        state = target.status(ref)
        for line in follower.lines():
            print(line, flush=True)
            told = time.monotonic()
        if state.final:
            return state
        live = follower.waiting()
        if time.monotonic() - told > _QUIET and live != said and live:
            print(f"  {live}", flush=True)
            told, said = time.monotonic(), live
        time.sleep(_PAUSE)


def _show_live(target: Any, ref: Any, follower: Any) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(highlight=False)
    columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task("", total=None)
        while True:
            state = target.status(ref)
            for line in follower.lines():
                console.print(line, markup=False)
            if state.final:
                return state
            fraction = follower.fraction()
            width = max(20, console.width - 28)
            progress.update(
                task,
                description=follower.live().strip()[:width],
                total=None if fraction is None else 1.0,
                completed=fraction or 0.0,
            )
            time.sleep(_PAUSE)
