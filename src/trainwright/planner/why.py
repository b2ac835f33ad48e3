"""The decision in words a newcomer follows, and the classic strategy table computed for this model and machine.

Takes what the search found and gives ``Reason``s and rows of plain numbers; every sentence carries the figures that
it rests on and where the formula comes from. Must not search for the layout itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import gcd
from typing import Any

from trainwright.models.layout import Layout, Recompute
from trainwright.planner.doubts import common_doubts, layout_doubts, pessimism
from trainwright.planner.evaluate import Evaluated, chunks_of, evaluate
from trainwright.planner.legality import divisors, tp_degrees
from trainwright.planner.memory import layer_activation_bytes
from trainwright.planner.network import Group
from trainwright.planner.plan import Reason
from trainwright.planner.search import Found, Space, search
from trainwright.planner.step import StepModel
from trainwright.planner.workload import ELEMENT_BYTES, ENGINE_LIMITS, OPTIMIZER_BYTES

GIB = 2**30
ZERO = "Rajbhandari et al. 2020, §3"
ACTIVATIONS = "Korthikanti et al. 2022, eq. 1–6"
PIPELINE = "Narayanan et al. 2021, §2.2"


def reasons(model: StepModel, found: Found) -> list[Reason]:
    """Why the first-ranked layout, in the order in which one would decide it by hand."""
    best = found.ranked[0]
    layout = best.layout
    told = [_state(model, best), *_data_parallel(model, best)]
    if layout.tp > 1:
        told.append(_tensor(model, best))
    if layout.pp > 1:
        told.append(_pipeline(model, best))
    if layout.cp > 1:
        told.append(
            Reason(
                f"cp={layout.cp}: each sequence of {model.workload.sequence_length} tokens is cut over {layout.cp} "
                f"ranks, which also cuts its activations by {layout.cp}.",
                "Liu et al. 2023 (ring attention)",
            )
        )
    if layout.ep > 1:
        told.append(
            Reason(
                f"ep={layout.ep}: {model.workload.dims.experts} experts over {layout.ep} ranks; tokens travel to "
                f"their expert and back, {100 * best.seconds.ep / best.seconds.total:.1f} % of the step.",
                "Lepikhin et al. 2020 (GShard)",
            )
        )
    told.append(_recompute(model, best))
    if len(found.ranked) > 1:
        second = found.ranked[1]
        gap = 100 * (second.seconds.total / best.seconds.total - 1)
        passed_over = _passed_over(model, found)
        if gap >= 0:
            text = f"The next best ({second.layout}) takes {gap:.1f} % longer; of"
        elif passed_over:
            text = "Of"
        else:
            text = (
                f"{second.layout} may be {-gap:.1f} % faster, which is less than the error bar, but has more moving "
                "parts; of"
            )
        told.append(Reason(f"{text} {found.legal} layouts looked at, {found.fitting} fit.", "search"))
        told += passed_over
    told.extend(_outside(model, best))
    return told


def _passed_over(model: StepModel, found: Found) -> list[Reason]:
    """The fastest layout by the mean, where it was ranked later because nothing like it was measured."""
    best, fastest = found.ranked[0], min(found.ranked, key=lambda e: e.seconds.total)
    doubted = layout_doubts(model.workload, model.constants, fastest.layout)
    far, near = (pessimism(model.workload, model.constants, one.layout) for one in (fastest, best))
    gap, wider = 100 * (1 - fastest.seconds.total / best.seconds.total), 100 * (far / near - 1)
    if not doubted or gap < 0.5 or wider <= 0:
        return []
    text = (
        f"{fastest.layout} is predicted {gap:.1f} % faster, but {'; '.join(doubted)}: the far edge of its error bar "
        f"lies {wider:.0f} % further out, and layouts are ranked by that edge. Force it to try it."
    )
    return [Reason(text, "docs/planner.md")]


def _state(model: StepModel, best: Evaluated) -> Reason:
    w = model.workload
    state = w.state
    if w.method != "full":
        share = 100 * w.trained_params / max(1, w.dims.params)
        return Reason(
            f"{w.method}: {w.dims.params / 1e9:.2f}B weights are frozen; {w.trained_params / 1e6:.1f}M "
            f"({share:.2f} %) are trained and alone carry gradients and optimizer state.",
            "Hu et al. 2021",
        )
    per = state.weights + state.gradients + state.master + OPTIMIZER_BYTES[w.optimizer]
    total = per * w.dims.params
    room = model.machine.memory_bytes
    verdict = "more than" if total > room else "within"
    return Reason(
        f"{w.dims.params / 1e9:.2f}B parameters × {per:g} bytes (weights {state.weights:g}, gradients "
        f"{state.gradients:g}, master {state.master:g}, {w.optimizer} {OPTIMIZER_BYTES[w.optimizer]:g}) = "
        f"{total / GIB:.1f} GiB: {verdict} the {room / GIB:.1f} GiB of one {model.machine.accelerator}"
        f"{', so plain data parallelism cannot hold it' if total > room else ', before activations'}.",
        ZERO,
    )


def _data_parallel(model: StepModel, best: Evaluated) -> list[Reason]:
    layout = best.layout
    first = best.ranks[0]
    held = first.weights + first.gradients + first.master + first.optimizer
    shards = layout.dp_shard * layout.cp
    if shards > 1 and layout.zero:
        over = f"dp_shard={layout.dp_shard}" + (f", cp={layout.cp}" if layout.cp > 1 else "")
        what = {1: "optimizer state is", 2: "optimizer state and gradients are", 3: "all state is"}[layout.zero]
        text = (
            f"{over}, zero={layout.zero}: {what} sharded over {shards} ranks, which "
            f"leaves {held / GIB:.1f} GiB of state on each; gradient and parameter traffic that compute does not "
            f"hide takes {100 * best.seconds.dp / best.seconds.total:.1f} % of the step."
        )
        if layout.dp_replicate > 1:
            text += f" {layout.dp_replicate} replicas of that keep the larger collectives within fewer nodes."
        return [Reason(text, ZERO)]
    if layout.data_parallel > 1:
        return [
            Reason(
                f"{layout.data_parallel} plain replicas: the state ({held / GIB:.1f} GiB) and activations "
                f"({first.activations / GIB:.1f} GiB) fit on every rank, so only gradients travel, once a step.",
                "Goyal et al. 2017",
            )
        ]
    return []


def _tensor(model: StepModel, best: Evaluated) -> Reason:
    layout = best.layout
    tokens = layout.micro_batch_size * model.workload.sequence_length / layout.cp
    size = ELEMENT_BYTES[model.workload.precision] * tokens * model.workload.dims.hidden
    inside = model.network.all_reduce(size, model.groups(layout)["tp"])
    nodes = layout.tp > model.machine.per_node
    text = (
        f"tp={layout.tp} {'across nodes' if nodes else 'inside the node'}: every matrix is cut {layout.tp} ways; its "
        f"{size / 2**20:.0f} MiB collectives take {1e3 * inside:.2f} ms each on "
        f"{'the network' if nodes else model.machine.fabric}"
    )
    if not nodes and model.machine.nodes > 1:
        outside = model.network.all_reduce(size, Group(1, layout.tp))
        text += f" and would take {outside / inside:.0f} times as long between nodes"
    measured = model.constants.calibrated and model.machine.fabric == "nvswitch"
    return Reason(
        text + f"; {100 * best.seconds.tp / best.seconds.total:.1f} % of the step is exposed.",
        "nccl-tests" if measured else "a share of the link's rate, not measured",
    )


def _pipeline(model: StepModel, best: Evaluated) -> Reason:
    layout = best.layout
    total = best.seconds.total
    chunks = chunks_of(layout)
    times = f"{layout.micro_batches} × {chunks}" if chunks > 1 else f"{layout.micro_batches}"
    few, many = min(layout.stages), max(layout.stages)
    return Reason(
        f"pp={layout.pp} ({layout.schedule}): stages of {few if few == many else f'{few}–{many}'} layers; only one "
        f"activation forward and one gradient back cross between two stages, {times} times a step "
        f"({100 * best.seconds.pp_p2p / total:.1f} %), and the bubble of filling and draining costs "
        f"{100 * best.seconds.bubble / total:.1f} %.",
        PIPELINE,
    )


def _recompute(model: StepModel, best: Evaluated) -> Reason:
    layout = best.layout
    other: Recompute = "full" if layout.recompute == "none" else "none"
    change = evaluate(model, replace(layout, recompute=other))
    if other == "full":
        percent = 100 * (change.seconds.total / best.seconds.total - 1)
        text = (
            f"No recomputation: everything fits ({best.peak / GIB:.1f} of {best.capacity / GIB:.1f} GiB); full "
            f"recomputation would save {(best.peak - change.peak) / GIB:.1f} GiB and cost {percent:.0f} % time."
        )
    else:
        percent = 100 * (best.seconds.total / change.seconds.total - 1)
        text = (
            f"recompute={layout.recompute}: without it a rank needs {change.peak / GIB:.1f} GiB of "
            f"{best.capacity / GIB:.1f}{_one_at_a_time(model, best)}; it costs {percent:.0f} % time."
        )
    return Reason(text, ACTIVATIONS)


def _one_at_a_time(model: StepModel, best: Evaluated) -> str:
    """What micro-batches of one sequence would need instead of recomputation: often they are the real rival."""
    layout = best.layout
    if layout.micro_batch_size == 1:
        return ""
    count = layout.micro_batches * layout.micro_batch_size
    rival = evaluate(model, replace(layout, recompute="none", micro_batch_size=1, micro_batches=count))
    longer = 100 * (rival.seconds.total / best.seconds.total - 1)
    text = f", with micro-batches of 1 {rival.peak / GIB:.1f} GiB"
    return f"{text} and {longer:+.0f} % time" if rival.fits else text


def _outside(model: StepModel, best: Evaluated) -> list[Reason]:
    """Where the numbers lie beyond what was measured."""
    beyond = common_doubts(model.workload, model.machine, model.constants)
    beyond += layout_doubts(model.workload, model.constants, best.layout)
    if not beyond:
        return []
    return [
        Reason("Outside the calibrated range: " + "; ".join(beyond) + ". Error bars are wider.", "docs/planner.md")
    ]


def not_run(stack: str, layout: Layout) -> list[Reason]:
    """What a recommended layout needs that the engine of this name does not cut; empty when it runs it."""
    beyond = [name for name in ENGINE_LIMITS.get(stack, ()) if getattr(layout, name) > 1]
    if not beyond:
        return []
    engine = "built-in trainer" if stack == "native" else stack
    way = ", ".join(f"{name}=1" for name in beyond)
    text = (
        f"The {engine} does not cut by {', '.join(beyond)}: this layout is for a program of your own (train:). "
        f"For the {engine}, force {way}."
    )
    return [Reason(text, "parallelism")]


def is_outside(model: StepModel, best: Evaluated) -> bool:
    """Whether the wider error bar applies."""
    return bool(_outside(model, best))


@dataclass(frozen=True)
class Strategy:
    """One row of the classic table, computed: the best layout of that kind, or why there is none."""

    name: str
    layout: str | None
    bytes_per_rank: int | None
    fits: bool
    communication_share: float | None
    seconds: float | None
    moving_parts: str
    note: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)


def strategies(model: StepModel, allowed: Space) -> list[Strategy]:
    """Data, tensor, pipeline, expert and 3D parallelism (and sharded data parallelism, FSDP) side by side.

    Of ``allowed`` only what the engine runs and the schedules are kept: a row is the best of its kind, whatever the
    question forces.
    """
    free = Space(limits=allowed.limits, schedules=allowed.schedules)
    world, d = model.machine.world_size, model.workload.dims
    # Whole nodes first: tensor parallelism alone would have to leave the node, which is the point of the row.
    tp_all = max((t for t in tp_degrees(d, world) if world % t == 0), default=1)
    pp_all = max((p for p in divisors(world) if p <= d.layers), default=1)
    kinds: list[tuple[str, dict[str, Any], tuple[int, ...], str]] = [
        ("data (DDP)", {"tp": 1, "pp": 1, "cp": 1, "ep": 1, "dp_shard": 1}, (0,), "none beside the launcher"),
        ("sharded data (FSDP, ZeRO-3)", {"tp": 1, "pp": 1, "cp": 1, "ep": 1}, (3,), "wrapping policy, resharding"),
        (
            "tensor",
            {"tp": tp_all, "pp": 1, "cp": 1, "ep": 1, "dp_shard": 1},
            (0,),
            "module plan, sequence parallelism",
        ),
        (
            "pipeline",
            {"tp": 1, "pp": pp_all, "cp": 1, "ep": 1, "dp_shard": 1},
            (0,),
            "stages, schedule, micro-batches",
        ),
        ("3D (data × tensor × pipeline)", {"cp": 1}, (0, 1, 2, 3), "all of the above and a mesh"),
    ]
    if d.experts:
        kinds.insert(4, ("expert", {"tp": 1, "pp": 1, "cp": 1}, (1, 2, 3), "router balance, all-to-all"))
    rows = [_strategy(model, free, name, forced, zeros, parts) for name, forced, zeros, parts in kinds]
    if not d.experts:
        rows.insert(4, Strategy("expert", None, None, False, None, None, "router balance, all-to-all", "no experts"))
    return rows


def _strategy(
    model: StepModel, free: Space, name: str, forced: dict[str, Any], zeros: tuple[int, ...], parts: str
) -> Strategy:
    space = replace(free, forced=forced, zeros=zeros, cross_node_tp=True)
    if name == "expert":
        whole = gcd(model.workload.dims.experts, model.machine.per_node)
        space = replace(free, forced={**forced, "ep": whole}, zeros=zeros)
    found = search(model, space, keep=3, most_rejected=0)
    candidates = found.ranked or ((found.closest,) if found.closest else ())
    if name.startswith("3D"):
        candidates = tuple(c for c in candidates if c and c.layout.tp > 1 and c.layout.pp > 1)
        candidates = candidates or _three_d(model, free)
    if not candidates or candidates[0] is None:
        return Strategy(name, None, None, False, None, None, parts, "no legal layout on these accelerators")
    best = candidates[0]
    s = best.seconds
    share = (s.tp + s.cp + s.ep + s.dp + s.pp_p2p + s.bubble) / s.total
    return Strategy(
        name, str(best.layout), best.peak, best.fits, share, s.total, parts, "" if best.fits else "no room"
    )


def _three_d(model: StepModel, free: Space) -> tuple[Evaluated, ...]:
    """The best layout that really uses tensor and pipeline parallelism together."""
    found: list[Evaluated] = []
    world = model.machine.world_size
    for tp in tp_degrees(model.workload.dims, model.machine.per_node):
        for pp in divisors(world):
            if tp > 1 and pp > 1 and world % (tp * pp) == 0 and len(found) < 64:
                forced = {"tp": tp, "pp": pp, "cp": 1}
                one = search(model, replace(free, forced=forced), keep=1, most_rejected=0)
                found += one.ranked or ((one.closest,) if one.closest else ())
    return tuple(sorted(found, key=lambda e: (not e.fits, e.seconds.total)))[:1]


def rules_of_thumb(model: StepModel, found: Found) -> list[Reason]:
    """Two rules of thumb checked by number for this model and machine."""
    w = model.workload
    told = []
    layer = {
        kind: layer_activation_bytes(w, model.constants.stack, micro_batch_size=1, recompute=kind)
        for kind in ("none", "full")
    }
    whole = layer["none"] * w.dims.layers
    kept = layer["full"] * w.dims.layers + layer["none"]
    told.append(
        Reason(
            f"“Activation checkpointing saves 3–4×”: here it saves {whole / kept:.1f}× of one micro-batch's "
            f"activations ({whole / GIB:.2f} → {kept / GIB:.2f} GiB).",
            ACTIVATIONS,
        )
    )
    if found.ranked:
        best = found.ranked[0]
        cuts = sum(d > 1 for d in (best.layout.tp, best.layout.pp, best.layout.data_parallel))
        flat = search(model, Space(forced={"tp": 1, "pp": 1}), keep=1, most_rejected=0)
        size = w.dims.params / 1e9
        if flat.ranked:
            gap = 100 * (flat.ranked[0].seconds.total / best.seconds.total - 1)
            without = f"sharded data parallelism alone takes {gap:+.1f} %"
        else:
            without = "sharded data parallelism alone does not fit"
        applies = size >= 100
        right = (cuts == 3) == applies
        told.append(
            Reason(
                f"“3D parallelism for 100B and more”: with {size:.1f}B the rule says {'3D' if applies else 'no 3D'}; "
                f"the fastest layout uses {cuts} of its three dimensions and {without}: the rule is "
                f"{'right' if right else 'wrong'} here.",
                "search",
            )
        )
    return told
