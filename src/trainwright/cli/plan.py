"""``trainwright plan``: which layout, will it fit, how long, how much, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, SetOption, SiteOption


def plan(
    context: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SPEC | diff A B]", help="Spec file; or diff and two plan files; or nothing."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Model by name, or a folder with config.json.")] = None,
    model_shape: Annotated[
        str | None, typer.Option("--model-shape", metavar="hidden=…,layers=…", help="Model by its sizes.")
    ] = None,
    params: Annotated[str | None, typer.Option("--params", help="Model by its parameters alone, such as 7B.")] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", metavar="NAME|FILE", help="Instance type or machine file.")
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Number of nodes.")] = None,
    layout: Annotated[
        str | None, typer.Option("--layout", metavar="dp_shard=…,tp=…", help="Evaluate this layout; do not search.")
    ] = None,
    sequence_length: Annotated[int | None, typer.Option("--sequence-length", help="Tokens in a sequence.")] = None,
    global_batch_size: Annotated[int | None, typer.Option("--global-batch-size", help="Sequences in a step.")] = None,
    micro_batch_size: Annotated[int | None, typer.Option("--micro-batch-size", help="Sequences at a time.")] = None,
    precision: Annotated[str, typer.Option("--precision", help="bf16, fp16, fp32 or fp8.")] = "bf16",
    optimizer: Annotated[
        str, typer.Option("--optimizer", help="adamw, adamw8bit, adafactor, lion or sgd.")
    ] = "adamw",
    method: Annotated[str, typer.Option("--method", help="full, lora or qlora.")] = "full",
    lora_rank: Annotated[int, typer.Option("--lora-rank", help="Rank of the adapters.")] = 16,
    recompute: Annotated[str | None, typer.Option("--recompute", help="none, selective or full.")] = None,
    offload_optimizer: Annotated[str, typer.Option("--offload-optimizer", help="none, cpu or nvme.")] = "none",
    stack: Annotated[
        str, typer.Option("--stack", help="Framework to predict: native, deepspeed, fsdp, megatron, nemo, nanotron.")
    ] = "native",
    tokens: Annotated[float | None, typer.Option("--tokens", help="Tokens of the whole run.")] = None,
    price: Annotated[float | None, typer.Option("--price", help="US dollars per node and hour.")] = None,
    region: Annotated[str, typer.Option("--region", help="Region of the public price.")] = "us-east-1",
    capacity: Annotated[
        str, typer.Option("--capacity", help="on_demand, spot, capacity_block or reserved.")
    ] = "on_demand",
    rank_by: Annotated[str, typer.Option("--rank-by", help="time, cost or memory (head-room).")] = "time",
    why: Annotated[bool, typer.Option("--why", help="Add the strategy table and check rules of thumb.")] = False,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="A,B,…", help="Machine types to put side by side.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", help="Longest time, such as 5d: choose nodes.")
    ] = None,
    budget: Annotated[float | None, typer.Option("--budget", help="Most US dollars: choose nodes.")] = None,
    max_nodes: Annotated[int, typer.Option("--max-nodes", help="Most nodes that --deadline and --budget try.")] = 512,
    failures: Annotated[
        float | None, typer.Option("--failures", help="Failures of one node per hour. Default: Llama 3's.")
    ] = None,
    calibrate: Annotated[
        Path | None, typer.Option("--calibrate", help="Run folder: fit the machine's constants to its steps.")
    ] = None,
    calibration: Annotated[Path | None, typer.Option("--calibration", help="File that --calibrate wrote.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Also write the plan (or calibration) as JSON.")] = None,
    pictures: Annotated[
        Path | None, typer.Option("--pictures", help="Folder for memory.svg, timeline.svg and cost.svg.")
    ] = None,
    set_: SetOption = None,
    site: SiteOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Say which layout runs, whether it fits, how long, how much, and why. Offline; nothing is started."""
    from trainwright.cli.output import is_terminal
    from trainwright.planner.asked import Asked
    from trainwright.reports.plan_answer import Request, respond

    asked = Asked(
        model=model,
        model_shape=f"params={params}" if params and not model_shape else model_shape,
        machine=machine,
        nodes=nodes,
        layout=layout,
        sequence_length=sequence_length,
        global_batch_size=global_batch_size,
        micro_batch_size=micro_batch_size,
        precision=precision,
        optimizer=optimizer,
        method=method,
        lora_rank=lora_rank,
        recompute=recompute,
        offload_optimizer=offload_optimizer,
        stack=stack,
        tokens=tokens,
        price=price,
        region=region,
        capacity=capacity,
        calibration=calibration,
        failures_per_node_hour=failures,
    )
    response = respond(
        Request(
            what=tuple(what or ()),
            asked=asked,
            rank_by=rank_by,
            why=why,
            compare=compare,
            deadline=deadline,
            budget=budget,
            max_nodes=max_nodes,
            calibrate=calibrate,
            save=save,
            pictures=pictures,
            overrides=tuple(set_ or ()),
            site=site,
            given=frozenset(name for name in context.params if _is_given(context, name)),
            colour=is_terminal() and output is Output.text,
        )
    )
    response.show(output is Output.json)
    raise typer.Exit(response.exit_code)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether a person typed it: what says its default on purpose is as much a wish as any other value."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
