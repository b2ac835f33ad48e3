"""``trainwright render``: write the files of the scheduler, and stop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, SetOption, SiteOption, TargetOption, VersionsOption, emit


def render(
    spec: Annotated[Path, typer.Argument(help="Spec file.")],
    set_: SetOption = None,
    site: SiteOption = None,
    target: TargetOption = None,
    versions: VersionsOption = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="Plan file. Default: plan again.")] = None,
    directory: Annotated[Path | None, typer.Option("--dir", help="Folder to write to. Default: only show.")] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what differs from the files in --dir; write nothing.")
    ] = False,
    output: OutputOption = Output.text,
) -> None:
    """Write what `submit` would submit: native files, the resolved spec and the plan."""
    from trainwright import api
    from trainwright.planner.plan import Plan
    from trainwright.targets.show import difference, listing, parse_versions

    loaded = api.load(spec, set_ or (), site)
    bundle = api.render(loaded, Plan.read(plan) if plan else api.plan(loaded), target, parse_versions(versions))
    if diff:
        changes = difference(bundle, directory or Path("."))
        emit({"changed": bool(changes), "diff": changes}, changes or "no difference", output)
        raise typer.Exit(1 if changes else 0)
    if directory is not None:
        bundle.write(directory)
    texts = {file.path: file.text for file in bundle.files}
    emit(
        {**bundle.to_dict(), "dir": directory and str(directory), "texts": texts}, listing(bundle, directory), output
    )
