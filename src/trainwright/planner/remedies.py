"""When nothing fits: the smallest changes that would make it fit, each with bytes saved and time lost.

Tries one change at a time on the workload or the machine and searches again. Takes a ``StepModel`` whose search
found nothing; gives remedies, cheapest first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainwright.planner.constants import constants_for
from trainwright.planner.evaluate import Evaluated
from trainwright.planner.search import Space, search
from trainwright.planner.step import StepModel
from trainwright.planner.workload import NATIVE_OFFLOAD, Machine, Workload


@dataclass(frozen=True)
class Remedy:
    """One change. ``bytes_saved`` is per accelerator against the closest miss; ``slower`` the ratio of step times."""

    change: str
    layout: str
    peak: int
    bytes_saved: int
    seconds: float
    slower: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)


def remedies(model: StepModel, space: Space, closest: Evaluated, most: int = 6) -> list[Remedy]:
    """Changes after which the best layout fits, ordered by the time they cost."""
    found = []
    enough_nodes = False
    for change, workload, machine, allowed in _changes(model.workload, model.machine, space):
        if machine.nodes != model.machine.nodes and enough_nodes:
            continue
        trial = StepModel(workload, machine, model.constants)
        best = search(trial, _coarse(allowed), keep=1, most_rejected=0).ranked
        if not best:
            continue
        enough_nodes = enough_nodes or machine.nodes != model.machine.nodes
        peak, seconds = best[0].peak, best[0].seconds.total
        # The whole cluster's time for the same tokens, so that more nodes are not mistaken for free speed.
        tokens = workload.tokens_per_step / model.workload.tokens_per_step
        cost = seconds / tokens * machine.nodes / model.machine.nodes
        found.append(
            Remedy(change, str(best[0].layout), peak, closest.peak - peak, seconds, cost / closest.seconds.total)
        )
    found.sort(key=lambda r: (r.slower, r.change))
    return found[:most]


def _coarse(space: Space) -> Space:
    """A smaller space that still holds a fitting layout whenever there is one."""
    return replace(space, schedules=("1f1b",), recomputes=("none", "full"), most_micro_batch=2)


def _changes(w: Workload, machine: Machine, space: Space) -> Iterator[tuple[str, Workload, Machine, Space]]:
    for name in ("recompute", "micro_batch_size", "zero", "dp_shard", "tp", "pp"):
        if name in space.forced:
            forced = {k: v for k, v in space.forced.items() if k != name}
            text = f"leave {name} to the planner (it is forced to {space.forced[name]})"
            yield text, w, machine, replace(space, forced=forced)
    if len(space.forced) > 1:
        yield "leave the whole layout to the planner", w, machine, replace(space, forced={})
    if w.method == "full":
        if w.optimizer == "adamw":
            yield "optimizer adamw8bit instead of adamw", replace(w, optimizer="adamw8bit"), machine, space
            yield "optimizer adafactor instead of adamw", replace(w, optimizer="adafactor"), machine, space
        if w.offload_optimizer == "none" and machine.host_memory_bytes:
            needed = NATIVE_OFFLOAD if w.stack == "native" else {}
            yield (
                "optimizer state in CPU memory (offload.optimizer: cpu)",
                replace(w, offload_optimizer="cpu"),
                machine,
                replace(space, forced={**needed, **space.forced}),
            )
        few = lora_params(w)
        yield (
            "LoRA adapters instead of all weights (method: lora)",
            replace(w, method="lora", lora_params=few),
            machine,
            space,
        )
        yield "LoRA on 4-bit weights (QLoRA)", replace(w, method="qlora", lora_params=few), machine, space
    if w.sequence_length > 1024:
        for divisor in (2, 4):
            half = w.sequence_length // divisor
            yield (
                f"sequences of {half} tokens instead of {w.sequence_length}",
                replace(w, sequence_length=half, global_batch_size=w.global_batch_size * divisor),
                machine,
                space,
            )
    for factor in (2, 4, 8, 16):
        nodes = machine.nodes * factor
        if w.global_batch_size >= nodes:
            yield (
                f"{nodes} nodes instead of {machine.nodes}",
                w,
                replace(machine, nodes=nodes),
                replace(space, forced={k: v for k, v in space.forced.items() if not k.startswith("dp_")}),
            )


def lora_params(w: Workload) -> int:
    """Trained parameters under LoRA of the workload's rank on every linear layer of every block: inputs + outputs.

    Stacks that fuse q, k, v and gate, up give them one adapter each. Hugging Face's gated families keep them apart
    (but for Phi-3), where the input counts once for each; families that are not gated mostly fuse q, k, v.
    """
    d = w.dims
    inward = d.ffn * (2 if d.gated else 1)
    fused = constants_for("", "none", w.stack).stack.adapter_linears == 4
    apart = 0 if fused or not d.gated else 2 * d.hidden + (d.hidden if d.ffn else 0)
    wide = (
        apart
        + (d.hidden + d.q_size + 2 * d.kv_size)
        + (d.q_size + d.hidden)
        + (d.hidden + inward)
        + (d.ffn + d.hidden)
    )
    return d.layers * w.lora_rank * wide
