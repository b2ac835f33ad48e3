"""From what a person types (model name or sizes, machine, layout, batch) to a ``Question``: planning without a spec.

Reads text, gives values; every problem of every option at once. Must not print, and must not know the CLI's parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts import machine_file, prices
from trainwright.models import registry
from trainwright.models.layout import Layout, LayoutError
from trainwright.models.shape import ModelShape
from trainwright.planner import calibrate
from trainwright.planner.answer import Question
from trainwright.planner.constants import stacks
from trainwright.planner.inputs import dims_of, machine_of, overlay_of
from trainwright.planner.plan import Reason
from trainwright.planner.remedies import lora_params
from trainwright.planner.search import Space, runnable
from trainwright.planner.workload import (
    ENGINE_LIMITS,
    RECIPES,
    Machine,
    Method,
    Offload,
    Optimizer,
    Precision,
    Workload,
)

Value = TypeVar("Value")

#: Tokens of a global batch when none is given: what dense models of 7B to 70B are commonly trained with.
DEFAULT_BATCH_TOKENS = 1 << 20
DEFAULT_SEQUENCE = 4096


@dataclass(frozen=True)
class Asked:
    """Options as text or numbers; None where not given."""

    model: str | None = None
    model_shape: str | None = None
    machine: str | None = None
    nodes: int | None = None
    layout: str | None = None
    sequence_length: int | None = None
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    precision: str = "bf16"
    optimizer: str = "adamw"
    method: str = "full"
    lora_rank: int = 16
    recompute: str | None = None
    offload_optimizer: str = "none"
    stack: str = "native"
    tokens: float | None = None
    price: float | None = None
    region: str = prices.DEFAULT_REGION
    capacity: str = "on_demand"
    calibration: Path | None = None
    failures_per_node_hour: float | None = None


def question_of(asked: Asked, *, why: bool = False) -> tuple[Question, Layout | None]:
    """(question, forced layout or None). InputError lists what is wrong with each option."""
    problems: list[Problem] = []

    def attempt(read: Callable[[], Value]) -> Value | None:
        try:
            return read()
        except InputError as error:
            problems.extend(error.problems)
            return None

    shape = attempt(lambda: _shape(asked))
    layout_text = asked.layout
    layout = attempt(lambda: parse_layout(layout_text)) if layout_text else None
    node = attempt(lambda: machine_file.find(_machine_name(asked)))
    problems += _words(asked)
    problems += _numbers(asked)
    if problems or shape is None or node is None:
        raise InputError(problems)
    machine = _cluster(asked, node, layout)
    workload = _workload(asked, shape, machine, layout)
    _check_precision(workload, machine)
    overlay = calibrated(overlay_of(node), asked.calibration, machine.accelerator)
    forced: dict[str, Any] = {}
    if asked.micro_batch_size:
        forced["micro_batch_size"] = asked.micro_batch_size
    if asked.recompute:
        forced["recompute"] = asked.recompute
    if asked.stack == "deepspeed":
        forced.update(pp=1, cp=1, tp=1, ep=1)
    space = Space(forced=forced)
    if asked.stack in ENGINE_LIMITS:
        space = runnable(space, asked.stack, shape.family)
    question = Question(
        workload=workload,
        machine=machine,
        space=space,
        why=why,
        where="plan",
        overlay=overlay or None,
        notes=tuple(_assumed(asked, workload)),
    )
    if asked.failures_per_node_hour is not None:
        question = replace(question, failures_per_node_hour=asked.failures_per_node_hour)
    return question, layout


def calibrated(
    overlay: Mapping[str, Mapping[str, float]], calibration: Path | None, accelerator: str
) -> dict[str, Mapping[str, float]]:
    """The machine's own constants, with those of a calibration file of this accelerator over them."""
    found = dict(overlay)
    for part, values in (calibrate.read(calibration, accelerator) if calibration else {}).items():
        found[part] = {**found.get(part, {}), **values}
    return found


def beside_spec(asked: Asked, question: Question) -> Question:
    """A spec's question with what only options say: a calibration file, how often nodes fail."""
    if problems := _numbers(asked):
        raise InputError(problems)
    overlay = calibrated(question.overlay or {}, asked.calibration, question.machine.accelerator)
    question = replace(question, overlay=overlay or None)
    often = asked.failures_per_node_hour
    return question if often is None else replace(question, failures_per_node_hour=often)


def at_first_of(asked: Asked, names: list[str]) -> Asked:
    """The question at the first known machine of ``--compare``, where no other is named. Unknown ones are told with
    every other problem of the options.
    """
    if asked.machine or not names:
        return asked
    problems: list[Problem] = []
    computing = []
    for name in names:
        try:
            if asked.precision in machine_file.find(name).accelerator.flops:
                computing.append(name)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError([*problems, *_words(asked), *_numbers(asked)])
    return replace(asked, machine=next(iter(computing), names[0]))


def machines(asked: Asked, names: list[str]) -> tuple[list[Machine], dict[str, Mapping[str, Mapping[str, float]]]]:
    """The clusters of ``--compare``, each with the asked number of nodes and its own price; and the constants that
    each machine's own file or calibration sets, by the machine's name.
    """
    problems: list[Problem] = []
    found: list[Machine] = []
    overlays: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for name in dict.fromkeys(names):
        try:
            node = machine_file.find(name)
            found.append(_cluster(asked, node, None))
            overlays[found[-1].name] = calibrated(overlay_of(node), asked.calibration, found[-1].accelerator)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found, overlays


def parse_layout(text: str) -> Layout:
    """``dp_shard=8,tp=2,zero=3,…``; ``stages=10+10+10+10``. Names are those of ``Layout``."""
    values: dict[str, Any] = {}
    problems = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not value:
            problems.append(Problem("--layout", field=name, what="has no value", instead="write name=value,…"))
            continue
        name = name.strip()
        if name in values:
            problems.append(Problem("--layout", field=name, what="is given twice"))
        values[name] = _layout_value(value.strip(), stages=name == "stages")
    known = [field.name for field in fields(Layout)]
    for name in [n for n in values if n not in known]:
        problems.append(
            Problem("--layout", field=name, what="is no field of a layout", instead=did_you_mean(name, known))
        )
        del values[name]
    layout = None
    try:
        layout = Layout.from_dict(values)
    except LayoutError as error:
        problems += [Problem("--layout", field=name, what=what) for name, what in error.problems]
    if problems or layout is None:
        raise InputError(problems)
    return layout


def _layout_value(text: str, *, stages: bool = False) -> Any:
    if stages and re.fullmatch(r"\d+", text):
        return (int(text),)
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"\d+(\+\d+)+", text):
        return tuple(int(n) for n in text.split("+"))
    return text


def _shape(asked: Asked) -> ModelShape:
    if asked.model_shape:
        shape, length = ModelShape.from_text(asked.model_shape), asked.sequence_length or 0
        if "max_positions" not in asked.model_shape and 0 < shape.max_positions < length:
            # A limit that nobody stated refuses nothing: a table of positions grows with the sequence.
            shape = shape.with_(max_positions=length, position_rows=length if shape.position_rows else 0)
        return shape
    if asked.model:
        return registry.load(asked.model)
    way = "name a spec, --model NAME or FOLDER, or --model-shape hidden=…,layers=…,heads=…"
    raise InputError([Problem("plan", field="model", what="is missing", instead=way)])


def _machine_name(asked: Asked) -> str:
    if asked.machine:
        return asked.machine
    way = "--machine with an instance type such as p5.48xlarge, or a file"
    raise InputError([Problem("plan", field="machine", what="is missing", instead=way)])


def _words(asked: Asked) -> list[Problem]:
    legal: Mapping[str, tuple[str, ...]] = {
        "precision": get_args(Precision),
        "optimizer": get_args(Optimizer),
        "method": get_args(Method),
        "offload_optimizer": get_args(Offload),
        "stack": stacks(),
        "recompute": ("none", "selective", "full"),
    }
    problems = []
    if asked.capacity.strip().lower().replace("-", "_") not in (known := (*get_args(prices.Capacity), "reserved")):
        way = did_you_mean(asked.capacity, known)
        problems.append(Problem("plan", field="--capacity", what=f"is {asked.capacity!r}", instead=way))
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d+", asked.region):
        way = f"an AWS region; prices are known for {', '.join(prices.all_regions())}"
        problems.append(Problem("plan", field="--region", what=f"is {asked.region!r}", instead=way))
    for name, choices in legal.items():
        value = getattr(asked, name)
        if value is not None and value not in choices:
            option = name.replace("_", "-")
            problems.append(
                Problem("plan", field=f"--{option}", what=f"is {value!r}", instead=did_you_mean(str(value), choices))
            )
    return problems


def _numbers(asked: Asked) -> list[Problem]:
    problems = []
    for name, most in (
        ("nodes", 131_072),
        ("sequence_length", 1 << 26),
        ("global_batch_size", 1 << 26),
        ("micro_batch_size", 1 << 16),
        ("lora_rank", 1 << 14),
        ("tokens", 1e17),
        ("price", 1e6),
        ("failures_per_node_hour", 1e3),
    ):
        value = getattr(asked, name)
        if value is None:
            continue
        option = "--failures" if name == "failures_per_node_hour" else f"--{name.replace('_', '-')}"
        if name == "failures_per_node_hour" and value == 0:
            continue
        if not value > 0:
            problems.append(Problem("plan", field=option, what=f"is {value}", instead="a positive number is needed"))
        elif value > most:
            problems.append(
                Problem("plan", field=option, what=f"is {value}", instead=f"at most {most:,.0f} is believable")
            )
    return problems


def _cluster(asked: Asked, node: Any, layout: Layout | None) -> Machine:
    price, date = asked.price, ""
    if price is None and node.usd_per_hour is None:
        known = prices.find(node.name, asked.region, asked.capacity) if asked.capacity != "reserved" else None
        price, date = (known.usd_per_hour, known.date) if known else (None, "")
    one = machine_of(node, 1, price=price, price_date=date)
    if layout is None or asked.nodes:
        return machine_of(node, asked.nodes or 1, price=price, price_date=date)
    world = layout.world_size
    if world < one.per_node:  # a part of one node: it owns its share of the interfaces
        share = world / one.per_node
        return replace(one, per_node=world, inter_bandwidth=one.inter_bandwidth * share)
    return machine_of(node, -(-world // one.per_node), price=price, price_date=date)


def _workload(asked: Asked, shape: ModelShape, machine: Machine, layout: Layout | None) -> Workload:
    dims = dims_of(shape)
    sequence = asked.sequence_length or min(DEFAULT_SEQUENCE, dims.max_positions or DEFAULT_SEQUENCE)
    batch = asked.global_batch_size
    if batch is None:
        world = machine.world_size
        batch = layout.global_batch_size if layout else max(1, round(DEFAULT_BATCH_TOKENS / sequence / world)) * world
    workload = Workload(
        dims=dims,
        sequence_length=sequence,
        global_batch_size=batch,
        precision=cast(Precision, asked.precision),
        optimizer=cast(Optimizer, asked.optimizer),
        method=cast(Method, asked.method),
        lora_rank=asked.lora_rank,
        offload_optimizer=cast(Offload, asked.offload_optimizer),
        recipe=asked.stack if asked.stack in RECIPES else "megatron",
        stack=asked.stack,
        tokens=asked.tokens,
    )
    return workload if asked.method == "full" else replace(workload, lora_params=lora_params(workload))


def _assumed(asked: Asked, workload: Workload) -> list[Reason]:
    """What was taken because it was not given."""
    options = {
        "--sequence-length": (asked.sequence_length, f"sequences of {workload.sequence_length:,} tokens"),
        "--global-batch-size": (
            asked.global_batch_size or asked.layout,
            f"{workload.global_batch_size:,} of them a step",
        ),
    }
    taken = {option: text for option, (given, text) in options.items() if not given}
    if not taken:
        return []
    return [Reason(f"Not given, so taken: {', '.join(taken.values())}.", " and ".join(taken))]


def _check_precision(workload: Workload, machine: Machine) -> None:
    if workload.precision not in dict(machine.peak):
        known = [name for name in get_args(Precision) if name in dict(machine.peak)]
        what = f"is {workload.precision}, which {machine.accelerator} does not compute"
        way = (
            f"one of {', '.join(known)}" if known else "state its tflops in bf16, fp16 or fp32: it can train in none"
        )
        raise InputError([Problem("plan", field="--precision", what=what, instead=way)])
