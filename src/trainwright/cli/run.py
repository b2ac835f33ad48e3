"""``trainwright run``: plan, render, submit and follow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import (
    Output,
    OutputOption,
    RunsOption,
    SetOption,
    SiteOption,
    TargetOption,
    VersionsOption,
)


def run(
    spec: Annotated[Path, typer.Argument(help="Spec file.")],
    set_: SetOption = None,
    site: SiteOption = None,
    target: TargetOption = None,
    versions: VersionsOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start another run of the same content.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be submitted, and stop.")] = False,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Plan, render, submit and follow a run. The same spec is the same run: a second call reports the first."""
    from trainwright import api
    from trainwright.cli.following import follow_to_the_end
    from trainwright.cli.output import emit
    from trainwright.errors import InputError
    from trainwright.targets.show import listing, parse_versions

    loaded = api.load(spec, set_ or (), site)
    bundle = api.render(loaded, api.plan(loaded), target, parse_versions(versions))
    if gone := api.missing(loaded, bundle, fresh=fresh, runs=runs):
        raise InputError(gone)
    if dry_run:
        emit(bundle.to_dict(), listing(bundle, None), output)
        return
    follow_to_the_end(*api.start(bundle, fresh=fresh, runs=runs), output)
