"""``trainwright init``: write a commented spec to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, emit
from trainwright.errors import InputError, Problem


def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("run.yaml"),
    model: Annotated[str, typer.Option("--model", help="Folder or Hub id.")] = "HuggingFaceTB/SmolLM2-135M",
    data: Annotated[str, typer.Option("--data", help="File or folder of text, JSONL or Parquet.")] = "./data",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    output: OutputOption = Output.text,
) -> None:
    """Write a spec with a comment on every line that people change."""
    from trainwright.spec.template import template

    if path.exists() and not force:
        raise InputError([Problem(str(path), what="exists", instead="name another file, or use --force")])
    path.parent.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() else "-" for c in path.absolute().parent.name.lower()).strip("-")[:30].strip("-")
    path.write_text(template(name or "my-run", model, data))
    emit({"path": str(path)}, f"wrote {path}\nnext: edit it, then `trainwright run {path}`", output)
