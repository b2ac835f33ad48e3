"""``trainwright schema``: print the JSON Schema of the spec or the site file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption


def schema(
    kind: Annotated[str, typer.Argument(help="run, site or plan.")] = "run",
    directory: Annotated[Path | None, typer.Option("--dir", help="Write KIND.schema.json there instead.")] = None,
    output: OutputOption = Output.json,
) -> None:
    """Print the JSON Schema of the spec, for editors: `# yaml-language-server: $schema=run.schema.json`."""
    from trainwright import api

    text = json.dumps(api.schema(kind), indent=2)
    if directory is None:
        print(text)
        return
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{kind}.schema.json"
    path.write_text(text + "\n")
    print(path if output is Output.text else json.dumps({"path": str(path)}))
