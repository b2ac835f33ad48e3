"""The search: every legal layout of a workload on a machine, the best few in order, the others with their reason.

Enumerates cuts as plain tuples, bounds each by its compute alone, and evaluates in ascending order of that bound
until no remaining cut can be better (branch and bound: exact, and equal to brute force in the tests).
Legality first, then memory, then time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from trainwright.models.layout import Layout
from trainwright.planner.doubts import pessimism
from trainwright.planner.evaluate import Evaluated, evaluate, host_bytes, host_capacity
from trainwright.planner.legality import Limits, divisors, limits_of, tp_trouble
from trainwright.planner.plan import Rejected
from trainwright.planner.step import StepModel

Objective = Literal["time", "memory"]


class Cut(NamedTuple):
    """A layout without validation: what the inner loop passes around."""

    pp: int
    dp_replicate: int
    dp_shard: int
    cp: int
    tp: int
    ep: int
    zero: int
    sequence_parallel: bool
    schedule: str
    micro_batch_size: int
    micro_batches: int
    recompute: str
    chunks: int

    def layout(self, model: StepModel) -> Layout:
        """The validated value."""
        values = self._asdict()
        chunks = values.pop("chunks")
        return Layout(**values, stages=model.stages(self, self.pp * chunks))


@dataclass(frozen=True)
class Space:
    """What the search may choose from. ``forced`` holds Layout fields that are given."""

    forced: Mapping[str, Any] = field(default_factory=dict)
    zeros: tuple[int, ...] = (0, 1, 2, 3)
    recomputes: tuple[str, ...] = ("none", "selective", "full")
    schedules: tuple[str, ...] = ("1f1b", "interleaved", "zero_bubble")
    chunk_counts: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
    #: Layers of each stage, where they are given; as many as pp · chunks.
    stages: tuple[int, ...] = ()
    most_cp: int = 64
    most_micro_batch: int = 32
    #: Share of memory that the search leaves free: about the median error of the memory model on published peaks.
    headroom: float = 0.06
    #: Tensor parallelism may leave the node only when it is forced to.
    cross_node_tp: bool = False
    #: What the engine that will run the plan cannot do; None for a program that may do as it likes.
    limits: Limits | None = None

    def only(self, name: str, value: Any) -> bool:
        """Whether ``value`` is allowed for a field."""
        return name not in self.forced or self.forced[name] == value


def runnable(space: Space, engine: str, family: str) -> Space:
    """The space without what this project's engine refuses. Its zero bubble needs more than the search knows."""
    return replace(space, limits=limits_of(engine, family), schedules=("1f1b", "interleaved"))


@dataclass(frozen=True)
class Found:
    """The answer of a search: the best first; ``front`` is the Pareto front of step time and peak memory."""

    ranked: tuple[Evaluated, ...]
    front: tuple[Evaluated, ...]
    rejected: tuple[Rejected, ...]
    #: The layout that comes nearest to fitting when none does.
    closest: Evaluated | None
    legal: int
    fitting: int
    evaluated: int
    #: How many cuts each kind of reason ruled out.
    counts: Mapping[str, int]


def search(
    model: StepModel,
    space: Space | None = None,
    objective: Objective = "time",
    keep: int = 10,
    most_rejected: int = 40,
) -> Found:
    """Find the ``keep`` best layouts. Deterministic: ties go to the simpler layout."""
    space = space or Space()
    counts: dict[str, int] = {}
    refused: list[tuple[float, Cut, str]] = []
    queue: list[tuple[float, Cut]] = []
    for cut, trouble in _outer(model, space):
        if trouble:
            counts[trouble.split("=")[0]] = counts.get(trouble.split("=")[0], 0) + 1
            refused.append((float(len(refused)), cut, trouble))
        else:
            queue.append((_bound(model, cut), cut))
    if objective == "time":
        queue.sort()
    troubles: dict[str, Cut] = {}
    best: dict[tuple[Any, ...], tuple[float, Cut]] = {}  # the best of each family of cuts
    front: dict[Cut, tuple[float, int]] = {}
    over: list[tuple[int, Cut]] = []
    legal = fitting = evaluated = 0
    capacity = int(model.machine.memory_bytes * (1 - space.headroom))
    offloading = "cpu" in (model.workload.offload_optimizer, model.workload.offload_parameters)
    host_room = host_capacity(model)
    threshold = float("inf")
    for bound, outer in queue:
        if objective == "time" and bound >= threshold:
            break
        stages = model.stages(outer, outer.pp * outer.chunks)
        held = _held(model, outer, stages)
        for cut in _splits(model, outer, space, troubles):
            legal += 1
            peak = max(round(model.memory.total(cut, params, dynamic)) for params, dynamic in held)
            if peak > capacity:
                over.append((peak, cut))
                continue
            if offloading and host_bytes(model, cut, stages) > host_room:
                counts["host memory"] = counts.get("host memory", 0) + 1
                over.append((peak, cut))
                continue
            fitting += 1
            if objective == "memory" and peak >= threshold:
                continue
            evaluated += 1
            seconds = model.seconds(cut, stages).total
            _note_front(front, cut, seconds, peak)
            key = seconds * _weight(model, cut) if objective == "time" else peak + seconds * 1e-9
            family = _family(cut)
            if key < best.get(family, (float("inf"), cut))[0]:
                best[family] = (key, cut)
                if len(best) >= keep:
                    threshold = sorted(value[0] for value in best.values())[keep - 1]
    refused += [(float(len(refused) + n), cut, text) for n, (text, cut) in enumerate(troubles.items())]
    chosen = sorted(best.values(), key=lambda item: item[0])[:keep]
    ranked = [evaluate(model, cut.layout(model)) for _, cut in chosen]
    over.sort(key=lambda item: item[0])
    if over:
        counts["memory"] = len(over)
    rejected = [Rejected(cut.layout(model), text) for _, cut, text in refused[: most_rejected // 2]]
    for peak, cut in _distinct(over)[: most_rejected - len(rejected)]:
        if peak <= capacity:
            reason = f"host memory: what is offloaded does not fit into {host_room / 2**30:.0f} GiB of a node"
            rejected.append(Rejected(cut.layout(model), reason))
            continue
        room = f"{capacity / 2**30:.1f} of {model.machine.memory_bytes / 2**30:.1f} GiB may be planned"
        reason = f"memory: needs {peak / 2**30:.1f} GiB per accelerator, {room}"
        rejected.append(Rejected(cut.layout(model), reason))
    return Found(
        ranked=tuple(ranked),
        front=tuple(evaluate(model, cut.layout(model)) for cut in _pareto(front)),
        rejected=tuple(rejected),
        closest=evaluate(model, over[0][1].layout(model)) if over and not ranked else None,
        legal=legal,
        fitting=fitting,
        evaluated=evaluated,
        counts=counts,
    )


def _outer(model: StepModel, space: Space) -> Iterator[tuple[Cut, str]]:
    """Every cut without its data-parallel split, as (cut, why it is illegal)."""
    w, machine = model.workload, model.machine
    d, world = w.dims, machine.world_size
    whole = divisors(world)
    tp_limit = world if space.cross_node_tp or "tp" in space.forced else machine.per_node
    for tp in whole:
        if tp > tp_limit or not space.only("tp", tp):
            continue
        blank = Cut(1, world // tp, 1, 1, tp, 1, 0, False, "1f1b", 1, 1, "none", 1)
        if text := tp_trouble(d, tp, space.limits):
            yield blank, text
            continue
        for pp in whole:
            if not space.only("pp", pp) or world % (tp * pp):
                continue
            if space.limits and (text := space.limits.pipeline_trouble(pp)):
                yield blank._replace(pp=pp, dp_replicate=world // (tp * pp)), text
                continue
            if pp > d.layers:
                if pp <= 2 * d.layers:
                    dp = world // (tp * pp)
                    yield blank._replace(pp=pp, dp_replicate=dp), f"pp={pp} exceeds the {d.layers} layers"
                continue
            for cp in whole:
                if cp > space.most_cp or world % (tp * pp * cp) or not space.only("cp", cp):
                    continue
                if cp > 1 and (
                    w.sequence_length % (2 * cp) or (w.sequence_length // cp < 1024 and "cp" not in space.forced)
                ):
                    continue
                dp = world // (tp * pp * cp)
                if space.limits and (text := space.limits.context_trouble(d, cp)):
                    yield blank._replace(pp=pp, cp=cp, dp_replicate=dp), text
                    continue
                if w.global_batch_size % dp:
                    text = f"global batch={w.global_batch_size} is not a multiple of the {dp} data-parallel ranks"
                    yield blank._replace(pp=pp, cp=cp, dp_replicate=dp), text
                    continue
                yield from _inner(model, space, tp, pp, cp, dp)


def _inner(model: StepModel, space: Space, tp: int, pp: int, cp: int, dp: int) -> Iterator[tuple[Cut, str]]:
    """Micro-batches, recomputation, schedules and expert degrees of one (tp, pp, cp)."""
    w = model.workload
    d = w.dims
    per_rank = w.global_batch_size // dp
    experts = [e for e in divisors(d.experts) if (dp * cp) % e == 0] if d.experts else [1]
    if space.limits and tp > 1 and d.experts:
        text = space.limits.expert_trouble(tp, max(experts))
        if text and any(space.only("ep", e) for e in experts if e > 1):
            yield Cut(pp, 1, dp, cp, tp, max(experts), 0, False, "1f1b", 1, 1, "none", 1), text
        experts = [1]
    sequence_parallel = space.forced.get("sequence_parallel", tp > 1)
    recomputes = [r for r in space.recomputes if space.only("recompute", r)]
    if model.constants.stack.flash and "recompute" not in space.forced:
        # Fused attention keeps no scores: there is nothing that selective recomputation would save.
        recomputes = [r for r in recomputes if r != "selective"]
    for mbs in divisors(per_rank):
        if not space.only("micro_batch_size", mbs):
            continue
        if mbs > space.most_micro_batch and "micro_batch_size" not in space.forced:
            break
        m = per_rank // mbs
        for schedule, chunks in _schedules(space, pp, m, d.layers):
            for recompute in recomputes:
                for ep in experts:
                    if space.only("ep", ep):
                        yield (
                            Cut(
                                pp,
                                dp,
                                1,
                                cp,
                                tp,
                                ep,
                                0,
                                bool(sequence_parallel and tp > 1),
                                schedule,
                                mbs,
                                m,
                                recompute,
                                chunks,
                            ),
                            "",
                        )


def _schedules(space: Space, pp: int, micro_batches: int, layers: int) -> Iterator[tuple[str, int]]:
    if pp == 1:
        yield space.forced.get("schedule", "1f1b"), 1
        return
    for schedule in space.schedules if "schedule" not in space.forced else (space.forced["schedule"],):
        if schedule != "interleaved":
            yield schedule, 1
        elif micro_batches % pp == 0:
            for chunks in space.chunk_counts:
                if pp * chunks <= layers:
                    yield schedule, chunks


def _splits(model: StepModel, outer: Cut, space: Space, troubles: dict[str, Cut]) -> Iterator[Cut]:
    """Every way to divide the data-parallel ranks into replicas and shards, and what ZeRO shards over them.

    ``troubles`` takes one example of each reason why the engine refuses a split.
    """
    dp = outer.dp_replicate
    for shard in divisors(dp):
        replicate = dp // shard
        if not space.only("dp_shard", shard) or not space.only("dp_replicate", replicate):
            continue
        if (shard * outer.cp) % outer.ep:
            continue
        # State is sharded over dp_shard · cp: with context ranks alone both are worth a look. DeepSpeed's ZeRO keeps
        # the fp32 weights, and offloads, on a single rank too.
        either = shard == 1 and (outer.cp > 1 or (space.limits is not None and space.limits.engine == "deepspeed"))
        useful = {True, False} if either else {shard > 1}
        for zero in space.zeros:
            if (zero > 0) not in useful and not ("zero" in space.forced and "dp_shard" in space.forced):
                continue
            if not space.only("zero", zero):
                continue
            cut = outer._replace(dp_replicate=replicate, dp_shard=shard, zero=zero)
            if space.limits and (text := space.limits.split_trouble(model.workload, zero, replicate)):
                troubles.setdefault(text, cut)
                continue
            yield cut


def _bound(model: StepModel, cut: Cut) -> float:
    """Seconds that no data-parallel split of this cut can beat: everything but data parallelism and the update."""
    stages = model.stages(cut, cut.pp * cut.chunks)
    return model.seconds(cut, stages, data_parallel=False).total * _weight(model, cut)


def _weight(model: StepModel, cut: Cut) -> float:
    """Half a percent for every moving part, far below the error bar: of two equally fast layouts the simpler wins.
    What was not calibrated on counts at the far edge of its wider error bar.
    """
    parts = sum(degree > 1 for degree in (cut.pp, cut.cp, cut.tp, cut.ep))
    # Sharded state counts twice: it also complicates checkpoints and whatever reads the model meanwhile.
    sharding = 2 * (cut.zero > 0) + (cut.dp_replicate > 1 and cut.dp_shard > 1)
    simplicity = 1.0 + 0.005 * (parts + (cut.schedule != "1f1b") + sharding)
    return simplicity * pessimism(model.workload, model.constants, cut)


def _family(cut: Cut) -> tuple[Any, ...]:
    """Cuts that differ in micro-batches, replicas or schedule alone are one suggestion to a reader."""
    return cut.pp, cut.cp, cut.tp, cut.ep, cut.zero, cut.recompute


def _held(
    model: StepModel, cut: Cut, stages: tuple[int, ...]
) -> list[tuple[tuple[float, float, tuple[float, float]], float]]:
    """(parameters, activation and logit bytes) of the stages that can be fullest: first, second and last."""
    found = []
    for stage in sorted({0, min(1, cut.pp - 1), cut.pp - 1}):
        layers = sum(stages[stage :: cut.pp])
        params = model.memory.stage_params(cut, layers, stage == 0, stage == cut.pp - 1)
        dynamic = sum(model.memory.dynamic(cut, stage, layers, cut.chunks))
        found.append((params, dynamic + model.memory.uneven(cut, stage, layers, cut.chunks)))
    return found


def _note_front(front: dict[Cut, tuple[float, int]], cut: Cut, seconds: float, peak: int) -> None:
    for other, (t, b) in list(front.items()):
        if t <= seconds and b <= peak:
            return
        if seconds <= t and peak <= b:
            del front[other]
    front[cut] = (seconds, peak)


def _pareto(front: dict[Cut, tuple[float, int]]) -> list[Cut]:
    return sorted(front, key=lambda cut: front[cut])


def _distinct(over: list[tuple[int, Cut]]) -> list[tuple[int, Cut]]:
    """The nearest miss of each combination of degrees."""
    seen: set[tuple[int, ...]] = set()
    kept = []
    for peak, cut in over:
        key = (cut.pp, cut.dp_shard, cut.cp, cut.tp, cut.zero)
        if key not in seen:
            seen.add(key)
            kept.append((peak, cut))
    return kept
