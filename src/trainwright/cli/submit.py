"""``trainwright submit``: start a rendered bundle and return."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunsOption, emit
from trainwright.cli.status import show


class DryRun(StrEnum):
    """Who looks at the bundle."""

    client = "client"
    server = "server"


def submit(
    bundle: Annotated[Path, typer.Argument(help="Folder written by `trainwright render --dir`.")],
    fresh: Annotated[bool, typer.Option("--fresh", help="Start another run of the same content.")] = False,
    dry_run: Annotated[
        DryRun | None,
        typer.Option("--dry-run", help="Submit nothing: print the files (client), or let the server check them."),
    ] = None,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Start what was rendered. The same content is the same run: live is left alone, unfinished goes on."""
    from trainwright import api, targets

    if dry_run is not None:
        _show_only(bundle, dry_run, output)
        return
    ref = api.submit(bundle, fresh=fresh, runs=runs)
    target = targets.for_scheme(ref.scheme)
    state = target.status(ref)
    name = target.folder(ref).run_id
    again = f"it is finished; --fresh starts another, trainwright report {name} shows it"
    hint = again if state.final else f"follow: trainwright logs -f {name}   stop: trainwright cancel {name}"
    show(target, ref, state, output, hint)


def _show_only(bundle: Path, how: DryRun, output: Output) -> None:
    from trainwright import api
    from trainwright.targets.bundle import Bundle
    from trainwright.targets.show import listing

    if how is DryRun.server:
        said = api.check(bundle)
        emit({"accepted": said}, "\n".join(said), output)
        return
    read = Bundle.read(bundle)
    emit({**read.to_dict(), "texts": {file.path: file.text for file in read.files}}, listing(read, None), output)
