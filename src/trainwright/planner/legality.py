"""What may not be: layouts that a model, a batch or a machine rules out, each with the nearest legal values.

Takes plain values and gives (field, what, instead) texts, all at once. Must not know time or memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.models.layout import Layout, LayoutError
from trainwright.models.stages import IN_STAGES
from trainwright.models.tensor_parallel import CUT_BY_TENSOR
from trainwright.planner.workload import Dims, Machine, Workload

Trouble = tuple[str, str, str]


def divisors(value: int) -> list[int]:
    """All divisors in ascending order."""
    small = [n for n in range(1, int(value**0.5) + 1) if value % n == 0]
    return small + [value // n for n in reversed(small) if n * n != value]


def nearest(value: int, legal: Iterable[int]) -> str:
    """The nearest legal value below and above, as a clause."""
    listed = sorted(set(legal))
    below = [n for n in listed if n < value]
    above = [n for n in listed if n > value]
    found = [str(n) for n in (below[-1:] + above[:1])]
    return f"nearest legal: {' or '.join(found)}" if found else "no other value is legal here"


def tp_degrees(dims: Dims, limit: int) -> list[int]:
    """Tensor-parallel degrees up to ``limit`` that cut heads, key-value heads and the MLP evenly."""
    return [tp for tp in range(1, limit + 1) if not tp_trouble(dims, tp)]


def tp_trouble(dims: Dims, tp: int, limits: Limits | None = None) -> str:
    """Why a tensor-parallel degree does not cut this model evenly; empty when it does.

    Experts are cut by columns, but by the built-in trainer (``limits``) dealt out whole.
    """
    if limits and tp > 1 and not limits.tensor:
        return (
            f"tp={tp} is not offered: the built-in trainer was not proved to be right for {limits.family} cut by tp"
        )
    experts = (dims.experts, "experts") if limits else (dims.expert_ffn, "expert columns")
    for size, name in (
        (dims.heads, "attention heads"),
        (dims.kv_heads, "key-value heads"),
        (dims.ffn, "MLP columns"),
        experts,
    ):
        if size and size % tp:
            return f"tp={tp} does not divide the {size} {name}"
    return ""


@dataclass(frozen=True)
class Limits:
    """What an engine of this project runs, beyond what divides: what ``training`` refuses, said before a launch.

    ``family`` is the model's; ``tensor`` and ``stages``: whether the trainer is proved for it when cut by tp and pp.
    """

    engine: str
    family: str
    tensor: bool = True
    stages: bool = True

    def pipeline_trouble(self, pp: int) -> str:
        """Why not that many stages; empty when it may be. The same for the others."""
        if pp > 1 and not self.stages:
            return (
                f"pp={pp} is not offered: the built-in trainer was not proved to be right for {self.family} in stages"
            )
        return ""

    def context_trouble(self, dims: Dims, cp: int) -> str:
        """Mixtures over context ranks are refused by training/parallel/expert.py."""
        if cp > 1 and dims.experts:
            return f"cp={cp} is not offered: the built-in trainer does not run mixtures of experts over context ranks"
        return ""

    def expert_trouble(self, tp: int, ep: int) -> str:
        """Experts are dealt either over ep or over tp (training/parallel/expert.py)."""
        return (
            f"ep={ep} beside tp={tp}: the built-in trainer cuts experts either over ep or over tp" if ep > 1 else ""
        )

    def split_trouble(self, workload: Workload, zero: int, replicate: int) -> str:
        """DeepSpeed shards over all data ranks, hides fp32 weights without ZeRO and flattens matrices with it."""
        if self.engine != "deepspeed":
            return ""
        if zero and replicate > 1:
            return f"zero={zero} with dp_replicate={replicate}: DeepSpeed shards over all data ranks"
        if zero and workload.optimizer == "adafactor":
            return f"zero={zero}: ZeRO flattens the matrices that Adafactor factors"
        if not zero and workload.precision != "fp32":
            return "zero=0: DeepSpeed hides the fp32 weights of mixed precision without ZeRO"
        if not zero and workload.offload_optimizer != "none":
            return "zero=0: DeepSpeed offloads only the optimizer state that ZeRO holds"
        if zero < 3 and workload.offload_parameters != "none":
            return f"zero={zero}: DeepSpeed offloads parameters under zero=3 alone"
        return ""


def limits_of(engine: str, family: str) -> Limits:
    """What the built-in trainer or DeepSpeed runs of a family; sizes without a family may be any that works."""
    free = family == "generic"
    return Limits(engine, family, free or family in CUT_BY_TENSOR, free or family in IN_STAGES)


def workload_troubles(w: Workload) -> Iterator[Trouble]:
    """Sizes that no layout can save."""
    d = w.dims
    for name, value, most in (
        ("sequence_length", w.sequence_length, 1 << 30),
        ("global_batch_size", w.global_batch_size, 1 << 30),
    ):
        if value < 1:
            yield name, f"is {value}", "a whole number of at least 1 is needed"
        elif value > most:
            yield name, f"is {value}", f"at most {most} is believable"
    if d.max_positions and w.sequence_length > d.max_positions:
        yield (
            "sequence_length",
            f"is {w.sequence_length}, longer than the model's {d.max_positions} positions",
            f"at most {d.max_positions}, or extend the positions (rope scaling) in the model's config",
        )
    if w.tokens is not None and w.tokens <= 0:
        yield "tokens", f"is {w.tokens:g}", "a positive number of tokens is needed"


#: More accelerators than any machine has; the divisors of numbers beyond cost more time than an answer is worth.
MOST_ACCELERATORS = 1 << 20


def machine_troubles(machine: Machine) -> Iterator[Trouble]:
    """Sizes of a cluster that are not believable."""
    if machine.world_size > MOST_ACCELERATORS:
        most = max(1, MOST_ACCELERATORS // machine.per_node)
        what = f"is {machine.nodes}, which makes {machine.world_size:,} accelerators"
        yield "nodes", what, f"at most {most:,} nodes of {machine.per_node} are believable"


def layout_troubles(w: Workload, machine: Machine, layout: Layout) -> Iterator[Trouble]:
    """Everything that rules this layout out for this workload on this machine, before memory."""
    d, world = w.dims, machine.world_size
    if layout.world_size != world:
        parts = "pp · dp_replicate · dp_shard · cp · tp"
        rest = layout.pp * layout.dp_replicate * layout.cp * layout.tp
        fitting = world // rest if world % rest == 0 else 0
        way = (
            f"dp_shard={fitting} would use all of them"
            if fitting
            else f"pp · dp_replicate · cp · tp has to divide {world}: {nearest(rest, divisors(world))}"
        )
        yield "layout", f"{parts} = {layout.world_size}, but there are {world} accelerators", way
    if text := tp_trouble(d, layout.tp):
        yield "tp", text, nearest(layout.tp, tp_degrees(d, d.kv_heads))
    virtual = max(layout.pp, len(layout.stages))
    if virtual > d.layers:
        what = f"needs {virtual} stages, but the model has {d.layers} layers"
        yield "pp", what, nearest(layout.pp, divisors(d.layers))
    if layout.stages and sum(layout.stages) != d.layers:
        what = f"hold {sum(layout.stages)} layers, but the model has {d.layers}"
        yield "stages", what, f"such as {_example(d.layers, len(layout.stages))}"
    # Causal context parallelism gives each rank an early and a late part, so that all do equal work.
    if layout.cp > 1 and w.sequence_length % (2 * layout.cp):
        legal = [n for n in range(1, 257) if w.sequence_length % (2 * n) == 0]
        what = f"2 · cp = {2 * layout.cp} does not divide the {w.sequence_length} tokens of a sequence"
        yield "cp", what, nearest(layout.cp, legal)
    if layout.ep > 1 and not d.experts:
        yield "ep", f"is {layout.ep}, but the model has no experts", "leave ep at 1"
    elif d.experts and d.experts % layout.ep:
        yield (
            "ep",
            f"is {layout.ep}, which does not divide the {d.experts} experts",
            nearest(layout.ep, divisors(d.experts)),
        )
    if layout.global_batch_size != w.global_batch_size:
        unit = layout.data_parallel * layout.micro_batch_size
        low = w.global_batch_size // unit * unit
        near = " or ".join(str(n) for n in (low, low + unit) if n)
        what = (
            f"micro_batch_size · micro_batches · dp_replicate · dp_shard = {layout.global_batch_size} sequences, "
            f"but the global batch is {w.global_batch_size}"
        )
        yield "global_batch_size", what, f"with this layout {near} would be legal"
    if layout.zero and layout.dp_shard == 1 and layout.cp == 1 and w.stack != "deepspeed":
        yield "zero", f"is {layout.zero}, but dp_shard is 1: there is nothing to shard over", "zero=0"
    if layout.schedule == "interleaved" and layout.pp > 1 and layout.micro_batches % layout.pp:
        what = f"interleaved needs micro_batches ({layout.micro_batches}) to be a multiple of pp ({layout.pp})"
        yield "schedule", what, "schedule=1f1b, or another micro-batch size"


def forced_troubles(w: Workload, machine: Machine, forced: Mapping[str, Any]) -> list[Trouble]:
    """What rules out the forced fields of a layout, the rest being as small as it can be: why a search found none."""
    degrees: dict[str, Any] = {
        name: int(forced.get(name, 1)) for name in ("pp", "dp_replicate", "dp_shard", "cp", "tp", "ep")
    }
    if "dp_shard" not in forced:
        rest = degrees["pp"] * degrees["dp_replicate"] * degrees["cp"] * degrees["tp"]
        degrees["dp_shard"] = max(1, machine.world_size // rest)
    size = int(forced.get("micro_batch_size", 1))
    ranks = degrees["dp_replicate"] * degrees["dp_shard"]
    try:
        layout = Layout(
            **degrees,
            zero=forced.get("zero", 0),
            micro_batch_size=size,
            micro_batches=max(1, w.global_batch_size // (size * ranks)),
        )
    except LayoutError as error:
        return [(name, what, "") for name, what in error.problems]
    return list(layout_troubles(w, machine, layout))


def _example(layers: int, stages: int) -> str:
    from trainwright.models.stages import balanced_stages

    return ",".join(map(str, balanced_stages(layers, stages)))
