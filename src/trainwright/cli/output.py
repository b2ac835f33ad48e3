"""What every verb shares: the ``--output`` option and printing a value as text or JSON."""

from __future__ import annotations

import os
import re
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from trainwright import plain_json


class Output(StrEnum):
    """Format of what a verb prints."""

    text = "text"
    json = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Format: text for people, json for programs.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Override a field of the spec.")
]
SiteOption = Annotated[Path | None, typer.Option("--site", help="Site file. Default: site.yaml beside the spec.")]
RunArgument = Annotated[
    str | None, typer.Argument(metavar="RUN", help="Run id, its beginning, or its folder. Default: the newest.")
]
RunsOption = Annotated[
    Path | None, typer.Option("--runs", help="Folder of runs. Default: $TRAINWRIGHT_RUNS, else ./runs.")
]
VersionsOption = Annotated[
    str | None,
    typer.Option("--versions", metavar="NAME=VERSION,…", help="Versions to render for, such as kubernetes=1.33."),
]
TargetOption = Annotated[str | None, typer.Option("--target", help="Where to run. Default: the spec's target.")]


def emit(value: Any, text: str, output: Output) -> None:
    """Print ``value`` as JSON or ``text`` as it is. ``value`` must be plain data."""
    print(plain_json.dumps(value, indent=2) if output is Output.json else text)


def is_terminal() -> bool:
    """True when a person watches: colours, live lines and progress bars are welcome."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def as_typed(line: str) -> str:
    """A line with commands as this person can type them: by path where the program is not on PATH."""
    program = sys.argv[0]
    if shutil.which("trainwright") or os.path.basename(program) != "trainwright":
        return line
    near = os.path.relpath(program)
    shown = near if not near.startswith("..") else program
    return re.sub(r"\btrainwright (?=[a-z])", lambda _: f"{shown} ", line)
