"""``trainwright train``: start this node's ranks of a run; what every target's launcher calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train(
    run_dir: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="Folder of the run: spec.yaml, plan.json, data.json.")
    ],
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Nodes of the run. Default: the spec's.")
    ] = None,
    node_rank: Annotated[int, typer.Option("--node-rank", min=0, help="Which of them this is.")] = 0,
    rendezvous: Annotated[
        str | None, typer.Option("--rendezvous", metavar="HOST:PORT", help="Address of the first node.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="Ranks on this node. Default: the plan's.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="10..12", help="Write a trace of these steps into RUN_DIR/profile."),
    ] = None,
) -> None:
    """Train on this node. Exit: 0 done, 1 user error, 75 saved on a signal, 76 non-finite loss, 77 hung."""
    from trainwright.runs.folder import RunFolder
    from trainwright.training.launch import Place, launch
    from trainwright.training.profiler import parse_steps

    if profile is not None:
        parse_steps(profile)
    spec = RunFolder(run_dir.absolute()).spec()
    place = Place(nodes or spec.compute.nodes, node_rank, rendezvous, processes)
    raise typer.Exit(launch(run_dir, place, profile=profile))
