"""The layout of a run on this machine: what the spec forces, checked, and plain data parallelism for the rest.

This is no search. It answers only what can be read off the spec and the machine: how many processes, which
degrees, which micro-batch. Figures it cannot know stay empty in the plan.
"""

from __future__ import annotations

import glob
import os
from typing import Any

from trainwright.errors import InputError, Problem
from trainwright.models.layout import Layout, LayoutError
from trainwright.planner.legality import divisors
from trainwright.planner.plan import Plan, Reason
from trainwright.spec.deepspeed import refuse_contradictions
from trainwright.spec.load import Loaded
from trainwright.spec.model import Parallelism, RunSpec


def plan_local(loaded: Loaded) -> Plan:
    """Plan a run on this machine. Raises InputError with every contradiction, at the field that holds it."""
    spec = loaded.spec
    accelerators = count_accelerators()
    reasons: list[Reason] = []
    asked = spec.compute.processes_per_node
    processes = max(1, accelerators) if asked == "auto" else asked
    if asked == "auto":
        found = f"{accelerators} accelerator(s)" if accelerators else "no accelerator"
        reasons.append(Reason(f"{processes} process(es) a node: this machine has {found}.", "this machine"))
    world = processes * spec.compute.nodes
    degrees = _degrees(loaded, world, reasons)
    micro_batch_size, micro_batches = _batching(loaded, degrees, reasons)
    recompute = "none" if spec.recompute == "auto" else spec.recompute
    try:
        layout = Layout(
            **degrees, micro_batch_size=micro_batch_size, micro_batches=micro_batches, recompute=recompute
        )
    except LayoutError as error:
        raise InputError([_problem(loaded, field, text, "") for field, text in error.problems]) from error
    refuse_contradictions(loaded, layout)
    if spec.optimizer.name == "adamw8bit" and spec.train is None and not accelerators:
        what, way = "is adamw8bit, whose state GPU kernels keep, and this machine has no GPU", "use adamw"
        raise InputError([loaded.problem(("optimizer", "name"), what, way)])
    machine = (
        f"this machine, {accelerators} accelerators" if accelerators else f"this machine, {os.cpu_count()} CPU cores"
    )
    return Plan(spec_sha256=spec.sha256, layout=layout, machine=machine, reasons=tuple(reasons))


def count_accelerators() -> int:
    """CUDA devices or Neuron devices that this process may use, without importing anything that talks to them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = len(glob.glob("/dev/nvidia[0-9]*"))
    if visible is not None and devices:
        return len([part for part in visible.split(",") if part.strip() and part.strip() != "-1"])
    return devices or len(glob.glob("/dev/neuron[0-9]*"))


def _degrees(loaded: Loaded, world: int, reasons: list[Reason]) -> dict[str, Any]:
    """Forced degrees, and data parallelism over the ranks that are left."""
    forced = loaded.spec.parallelism
    given = {name: value for name in Parallelism.model_fields if (value := getattr(forced, name)) is not None}
    model_ranks = given.get("pp", 1) * given.get("cp", 1) * given.get("tp", 1)
    if world % model_ranks:
        what = f"pp · cp · tp = {model_ranks} does not divide the {world} processes"
        raise InputError([loaded.problem(("parallelism",), what, _near_multiple(world, model_ranks))])
    data_ranks = world // model_ranks
    wants_sharding = given.get("zero", 0) > 0
    if "dp_shard" not in given and "dp_replicate" not in given:
        given["dp_shard" if wants_sharding else "dp_replicate"] = data_ranks
        kind = "ZeRO/FSDP sharding" if wants_sharding else "plain data parallelism (DDP)"
        if data_ranks > 1:
            reasons.append(Reason(f"{data_ranks} data-parallel ranks with {kind}.", "parallelism in the spec"))
    else:
        known = "dp_shard" if "dp_shard" in given else "dp_replicate"
        other = "dp_replicate" if known == "dp_shard" else "dp_shard"
        if other not in given and data_ranks % given[known] == 0:
            given[other] = data_ranks // given[known]
    asked = given.get("dp_shard", 1) * given.get("dp_replicate", 1)
    if asked != data_ranks:
        what = f"needs {asked * model_ranks} processes, but there are {world}"
        instead = f"set compute.processes_per_node to {asked * model_ranks // loaded.spec.compute.nodes or 1}"
        raise InputError(
            [loaded.problem(("parallelism",), what, f"{instead}, or leave dp_shard and dp_replicate out")]
        )
    if given.get("dp_shard", 1) > 1 and "zero" not in given:
        given["zero"] = 3
    if isinstance(given.get("stages"), list):
        given["stages"] = tuple(given["stages"])
    return given


def _batching(loaded: Loaded, degrees: dict[str, Any], reasons: list[Reason]) -> tuple[int, int]:
    """Micro-batch size and count per data-parallel rank."""
    spec = loaded.spec
    data_parallel = degrees.get("dp_shard", 1) * degrees.get("dp_replicate", 1)
    if spec.global_batch_size % data_parallel:
        what = f"is {spec.global_batch_size}, not a multiple of the {data_parallel} data-parallel ranks"
        instead = _near_multiple(spec.global_batch_size, data_parallel)
        raise InputError([loaded.problem(("global_batch_size",), what, instead)])
    per_rank = spec.global_batch_size // data_parallel
    if isinstance(spec.micro_batch_size, int):
        if per_rank % spec.micro_batch_size:
            what = f"is {spec.micro_batch_size}, which does not divide the {per_rank} sequences of a rank"
            legal = divisors(per_rank)
            nearest = sorted(sorted(legal, key=lambda n: abs(n - int(spec.micro_batch_size)))[:8])
            raise InputError([loaded.problem(("micro_batch_size",), what, f"one of {', '.join(map(str, nearest))}")])
        return spec.micro_batch_size, per_rank // spec.micro_batch_size
    stages = degrees.get("pp", 1)
    filling = [n for n in divisors(per_rank) if (per_rank // n) % stages == 0] or [1]
    size = max((n for n in filling if n * spec.sequence_length <= _AUTO_TOKENS), default=1)
    text = f"micro-batches of {size}: the largest that divides {per_rank} and holds at most {_AUTO_TOKENS} tokens"
    text += f" and gives a multiple of the {stages} pipeline stages." if stages > 1 else "."
    reasons.append(Reason(text, "rule"))
    return size, per_rank // size


#: Tokens of an automatic micro-batch on this machine: enough to keep it busy, small enough for its memory.
_AUTO_TOKENS = 4096


def _near_multiple(value: int, unit: int) -> str:
    low = value // unit * unit
    return f"write {low} or {low + unit}" if low else f"write {unit}"


def _problem(loaded: Loaded, field: str, what: str, instead: str) -> Problem:
    in_parallelism = field in Parallelism.model_fields
    return loaded.problem(("parallelism", field) if in_parallelism else (field,), what, instead)


def check_plan(plan: Plan, spec: RunSpec, path: str) -> None:
    """Refuse a plan made for another spec."""
    if plan.spec_sha256 != spec.sha256:
        what = "was made for another spec (or for this one before it was edited)"
        raise InputError([Problem(path, what=what, instead="leave --plan out, or plan again")])
