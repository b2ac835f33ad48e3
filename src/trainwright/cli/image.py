"""``trainwright image``: write the Dockerfile that a run's pods need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, SetOption, SiteOption, TargetOption, emit


def image(
    spec: Annotated[Path, typer.Argument(help="Spec file.")],
    set_: SetOption = None,
    site: SiteOption = None,
    target: TargetOption = None,
    directory: Annotated[Path | None, typer.Option("--dir", help="Folder to write to. Default: only show.")] = None,
    output: OutputOption = Output.text,
) -> None:
    """Write a Dockerfile for the run: GPUs with EFA, Neuron or CPUs, by the spec's instance type."""
    from trainwright import api
    from trainwright.targets.image import dockerfile

    loaded = api.load(spec, set_ or (), site)
    text = dockerfile(loaded.spec, loaded.site, target or loaded.spec.target.name)
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "Dockerfile").write_text(text, "utf-8")
    emit({"dockerfile": text, "dir": directory and str(directory)}, text.rstrip(), output)
