"""``trainwright submit``: start a rendered bundle and return."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunsOption
from trainwright.cli.status import show


def submit(
    bundle: Annotated[Path, typer.Argument(help="Folder written by `trainwright render --dir`.")],
    fresh: Annotated[bool, typer.Option("--fresh", help="Start another run of the same content.")] = False,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Start what was rendered. The same content is the same run: live is left alone, unfinished goes on."""
    from trainwright import api, targets

    ref = api.submit(bundle, fresh=fresh, runs=runs)
    target = targets.for_scheme(ref.scheme)
    state = target.status(ref)
    name = target.folder(ref).run_id
    again = f"it is finished; --fresh starts another, trainwright report {name} shows it"
    hint = again if state.final else f"follow: trainwright logs -f {name}   stop: trainwright cancel {name}"
    show(target, ref, state, output, hint)
