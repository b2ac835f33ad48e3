"""``trainwright doctor``: what a cluster has and lacks for a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, SetOption, SiteOption, TargetOption, VersionsOption, emit
from trainwright.runs.exit_codes import Exit


def doctor(
    spec: Annotated[Path | None, typer.Argument(help="Spec file. Default: look at the cluster alone.")] = None,
    set_: SetOption = None,
    site: SiteOption = None,
    target: TargetOption = None,
    versions: VersionsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Say what the cluster has and lacks, each line with its fix; only reads. Exit 1 if something is missing."""
    from trainwright import api
    from trainwright.targets.doctor import listing, passes
    from trainwright.targets.show import parse_versions

    loaded = api.load(spec, set_ or (), site) if spec is not None else None
    checks = api.doctor(loaded, target, parse_versions(versions), site=site)
    emit([one.to_dict() for one in checks], listing(checks), output)
    if not passes(checks):
        raise typer.Exit(Exit.NO)
