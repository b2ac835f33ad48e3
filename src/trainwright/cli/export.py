"""``trainwright export``: a run's model as a folder that ``from_pretrained`` loads."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunArgument, RunsOption, emit


class Dtype(StrEnum):
    """Type of the exported weights."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


def export(
    run: RunArgument = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder to write. Default: export/ in the run's folder.")
    ] = None,
    step: Annotated[int | None, typer.Option("--step", help="Step of the checkpoint. Default: the best.")] = None,
    dtype: Annotated[
        Dtype, typer.Option("--dtype", help="Type of the weights; auto: as training computed.")
    ] = Dtype.auto,
    merge: Annotated[
        bool, typer.Option("--merge/--no-merge", help="LoRA: merged weights too, or the adapter alone.")
    ] = True,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Write weights, config and tokenizer in Hugging Face format, safetensors only."""
    from trainwright.cli.working import working
    from trainwright.registry.finish import export_run
    from trainwright.runs.folder import find

    with working("reading the checkpoint"):
        done = export_run(find(run, runs), to.absolute() if to else None, step, merge, dtype.value)
    emit(done.to_dict(), f"step {done.step}, {done.dtype}: {done.folder}", output)
