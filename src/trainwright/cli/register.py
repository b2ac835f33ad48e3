"""``trainwright register``: a run's model into the registry, and to remote ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunArgument, RunsOption, emit


def register(
    run: RunArgument = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the model. Default: the spec's.")] = None,
    alias: Annotated[list[str] | None, typer.Option("--alias", help="Also let this name mean the version.")] = None,
    registry: Annotated[Path | None, typer.Option("--registry", help="Registry folder.")] = None,
    hub: Annotated[
        str | None, typer.Option("--hub", metavar="OWNER/NAME", help="Push to this Hub repository.")
    ] = None,
    mlflow: Annotated[
        str | None, typer.Option("--mlflow", metavar="ADDRESS", help="Register with MLflow too.")
    ] = None,
    step: Annotated[int | None, typer.Option("--step", help="Step of the checkpoint. Default: the best.")] = None,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Measure a run's model, ask its gate, and register it. The same run and step are never registered twice."""
    from trainwright.cli.working import working
    from trainwright.registry.finish import finish, settings_with
    from trainwright.registry.words import finished_lines
    from trainwright.runs.folder import find

    folder = find(run, runs)
    settings = settings_with(folder.spec(), name, tuple(alias or ()), registry, hub, mlflow)
    with working("reading the checkpoint") as progress:
        done = finish(folder, progress, step=step, settings=settings)
    emit(done.to_dict(), "\n".join(finished_lines(done)), output)
