"""``trainwright logs``: what the ranks and stages of a run print."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunArgument, RunsOption
from trainwright.runs.exit_codes import Exit


def logs(
    run: RunArgument = None,
    rank: Annotated[int | None, typer.Option("--rank", min=0, help="Only this rank.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more, through restarts, to the end.")
    ] = False,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Show logs, each line with its rank or stage. Ctrl-C stops following, never the run."""
    from trainwright import targets
    from trainwright.runs.folder import find

    folder = find(run, runs)
    target, ref = targets.of_run(folder)
    attempt = 0
    try:
        for line in target.logs(ref, rank=rank, follow=follow):
            if output is Output.json:
                print(json.dumps(asdict(line)), flush=follow)
                continue
            if line.attempt != attempt and (attempt or line.attempt > 1):
                print(f"---- attempt {line.attempt}")
            attempt = line.attempt
            print(f"{line.source:>7} | {line.text}", flush=follow)
    except KeyboardInterrupt:
        name = folder.run_id
        print(f"\nThe run goes on. Follow it again: trainwright logs -f {name}   Stop it: trainwright cancel {name}",
              file=sys.stderr)  # fmt: skip
        raise typer.Exit(Exit.INTERRUPTED) from None
