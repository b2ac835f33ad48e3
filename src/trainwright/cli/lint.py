"""``trainwright lint``: find what will hang, crash or waste in manifests, scripts and configs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import VersionsOption, is_terminal


def lint(
    paths: Annotated[list[str], typer.Argument(metavar="PATH…", help="Files and folders; - is standard input.")],
    select: Annotated[str, typer.Option("--select", help="Only rules with these prefixes: TW1,TW205.")] = "",
    ignore: Annotated[str, typer.Option("--ignore", help="Not the rules with these prefixes.")] = "",
    versions: VersionsOption = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Exit code 0: no error; 1: at least one error; 2: bad input."""
    from trainwright.linter.engine import Options, lint_files, load_files, read_source
    from trainwright.linter.output.terminal import render_terminal

    given = dict(pair.split("=", 1) for pair in (versions or "").split(",") if "=" in pair)
    files = list(load_files(Path(path) for path in paths if path != "-"))
    if "-" in paths:
        files.append(read_source("<stdin>", sys.stdin.read()))
    findings = lint_files(files, Options(_prefixes(select), _prefixes(ignore), given))
    if output == "json":
        print(json.dumps([finding.to_dict() for finding in findings], indent=2))
    else:
        contents = {file.path: file.text.shown or file.text.content for file in files}
        print(render_terminal(findings, contents, colour=is_terminal()))
    raise typer.Exit(1 if any(finding.severity == "error" for finding in findings) else 0)


def _prefixes(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
