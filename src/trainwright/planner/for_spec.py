"""From a loaded spec to a ``Question`` and its plan: the entry of ``run``, ``render`` and ``submit``.

Maps the spec's words to the planner's, points every problem at the spec's line, and keeps to the layouts that the
engine can run. Must not know how a plan is shown.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from trainwright.errors import InputError, Problem
from trainwright.facts import machine_file, machines, prices
from trainwright.models import registry
from trainwright.models.shape import ModelShape
from trainwright.models.stages import balanced_stages
from trainwright.planner import explicit
from trainwright.planner.answer import Question, answer
from trainwright.planner.inputs import dims_of, machine_of, overlay_of
from trainwright.planner.plan import Plan, Reason
from trainwright.planner.remedies import lora_params
from trainwright.planner.search import Space, runnable
from trainwright.planner.workload import ENGINE_LIMITS, NATIVE_OFFLOAD, Machine, Optimizer, Precision, Workload
from trainwright.spec.deepspeed import refuse_contradictions
from trainwright.spec.load import Loaded
from trainwright.spec.model import Parallelism, RunSpec
from trainwright.spec.site import Site

_OPTIMIZERS: dict[str, Optimizer] = {
    "adamw": "adamw", "adam": "adamw", "adamw8bit": "adamw8bit", "adafactor": "adafactor", "lion": "lion",
    "sgd": "sgd",
}  # fmt: skip


def plan_spec(loaded: Loaded, *, why: bool = False) -> Plan:
    """The plan of a spec. ``compute.instance: local`` is planned without a search (``explicit``).

    InputError lists every problem at its place in the spec; DoesNotFit (exit code 1) says what would fit.
    """
    if loaded.spec.compute.instance == "local":
        return explicit.plan_local(loaded)
    plan = answer(question_of(loaded, why=why))
    refuse_contradictions(loaded, plan.layout)
    return plan


def question_of(loaded: Loaded, *, why: bool = False) -> Question:
    """What a spec asks of the planner."""
    spec = loaded.spec
    if spec.model is None:
        way = "give model beside train.script, or force the layout and use compute.instance: local"
        raise InputError([loaded.problem(("model",), "is missing: without it nothing can be planned", way)])
    _refuse_offload(loaded)
    shape = registry.load(spec.model.path)
    dims = dims_of(shape)
    node = node_for(spec, loaded.site)
    machine = machine_for(spec, loaded.site)
    workload = Workload(
        dims=dims,
        sequence_length=spec.sequence_length,
        global_batch_size=spec.global_batch_size,
        precision=_precision(spec, machine),
        optimizer=_OPTIMIZERS[spec.optimizer.name],
        method=spec.method,
        lora_rank=spec.lora.rank,
        offload_optimizer=spec.offload.optimizer,
        offload_parameters=spec.offload.parameters,
        recipe=spec.engine,
        stack=spec.engine,
        **_length(spec),
    )
    if spec.method != "full":
        workload = replace(workload, lora_params=lora_params(workload))
    return Question(
        workload=workload,
        machine=machine,
        space=_space(loaded, shape),
        why=why,
        where=loaded.document.path,
        spec_sha256=spec.sha256,
        overlay=overlay_of(node) or None,
        notes=tuple(_length_reasons(spec)),
    )


def _refuse_offload(loaded: Loaded) -> None:
    """What the built-in trainer would refuse of a spec's offload once every rank has started: all at once, here."""
    spec = loaded.spec
    if (
        spec.engine != "native"
        or spec.train is not None
        or {spec.offload.optimizer, spec.offload.parameters} == {"none"}
    ):
        return
    way = "or engine: deepspeed"
    problems = [
        loaded.problem(("parallelism", name), f"is {degree} beside offload, which is not proved", f"{name}: 1, {way}")
        for name in ("pp", "tp", "ep")
        if (degree := getattr(spec.parallelism, name) or 1) > 1
    ]
    if spec.offload.optimizer == "none":
        what = "keeps parameters in host memory, where they have to be updated too"
        problems.append(loaded.problem(("offload", "parameters"), what, f"add optimizer: cpu, {way}"))
    zero = spec.parallelism.zero
    if zero is not None and (zero < 1 or (spec.offload.parameters != "none" and zero < 3)):
        needed = "zero: 3" if spec.offload.parameters != "none" else "zero: 1, 2 or 3"
        what = f"is {zero}, which keeps gathered what offload is to move"
        problems.append(loaded.problem(("parallelism", "zero"), what, needed))
    if spec.optimizer.name == "adamw8bit":
        what = "is adamw8bit, which runs on the GPU alone, beside offload"
        problems.append(loaded.problem(("optimizer", "name"), what, "use adamw"))
    if problems:
        raise InputError(problems)


def node_for(spec: RunSpec, site: Site) -> machines.Machine:
    """The node type a spec names: an instance type, a machine file, or the file that the site names."""
    name = spec.compute.instance
    return machine_file.read(Path(site.machines)) if site.machines and name == "site" else machine_file.find(name)


def machine_for(spec: RunSpec, site: Site) -> Machine:
    """The cluster a spec asks for: an instance type, or a machine of the site's file; with its price where known."""
    name = spec.compute.instance
    node = node_for(spec, site)
    price, date = site.prices.get(name), ""
    if price is None and node.usd_per_hour is None and spec.compute.capacity != "reserved":
        known = prices.find(name, site.region or prices.DEFAULT_REGION, spec.compute.capacity)
        price, date = (known.usd_per_hour, known.date) if known else (None, "")
    machine = machine_of(node, spec.compute.nodes, price=price, price_date=date)
    asked = spec.compute.processes_per_node
    if asked != "auto" and asked != machine.per_node:
        if asked > machine.per_node:
            what = f"is {asked}, but {name} has {machine.per_node} accelerators"
            raise InputError([Problem("spec", field="compute.processes_per_node", what=what, instead="auto")])
        share = asked / machine.per_node
        machine = replace(machine, per_node=asked, inter_bandwidth=machine.inter_bandwidth * share)
    return machine


def _precision(spec: RunSpec, machine: Machine) -> Precision:
    """``auto`` is bf16 where the accelerator computes it, else fp32, as the trainer decides."""
    known = dict(machine.peak)
    if spec.precision == "auto":
        return "bf16" if "bf16" in known else "fp32"
    if spec.precision not in known:
        what = f"is {spec.precision}, which {machine.accelerator} does not compute"
        raise InputError(
            [Problem("spec", field="precision", what=what, instead=f"one of {', '.join(known)}, or auto")]
        )
    return cast(Precision, spec.precision)


def _length(spec: RunSpec) -> dict[str, Any]:
    """Steps or tokens of the run; epochs need the data's size, which is not known before it is prepared."""
    if spec.duration.unit == "steps":
        return {"steps": int(spec.duration.value)}
    if spec.duration.unit == "tokens":
        return {"tokens": float(spec.duration.value)}
    return {}


def _length_reasons(spec: RunSpec) -> list[Reason]:
    """What of the run's length is known only once the data is prepared."""
    unit = spec.duration.unit
    if unit == "epochs":
        text = "Hours and cost need the size of the data, which `prepare` finds: duration is in epochs."
        return [Reason(text, "duration")]
    pairs = spec.objective == "masked" and spec.masked.sentence_pairs
    if unit == "tokens" and (pairs or (spec.data is not None and not spec.data.packing)):
        text = (
            f"Hours and cost count {spec.sequence_length} tokens in every sequence. Without packing samples are "
            "shorter and padding is no token: with a mean of half as many the run takes twice as long."
        )
        return [Reason(text, "duration")]
    return []


def _space(loaded: Loaded, shape: ModelShape) -> Space:
    """What is forced, and what the engine can run."""
    spec = loaded.spec
    forced = _forced(spec)
    space = Space(forced=forced)
    if spec.train is None:
        space = runnable(space, spec.engine, shape.family)
    return space if spec.parallelism.stages is None else _staged(loaded, space, shape.layers)


def _staged(loaded: Loaded, space: Space, layers: int) -> Space:
    """The space where the spec gives each stage's layers."""
    stages = tuple(loaded.spec.parallelism.stages or ())
    pp = space.forced.get("pp") or len(stages)
    if sum(stages) != layers or not stages or len(stages) % pp:
        what = f"has {len(stages)} stages of {sum(stages)} layers, but the model has {layers} layers and pp is {pp}"
        instead = f"such as {', '.join(map(str, balanced_stages(layers, pp)))}"
        raise InputError([loaded.problem(("parallelism", "stages"), what, instead)])
    held = len(stages) // pp
    schedules = ("interleaved",) if held > 1 else tuple(s for s in space.schedules if s != "interleaved")
    forced = {**space.forced, "pp": pp}
    return replace(space, forced=forced, schedules=schedules, chunk_counts=(held,), stages=stages)


def _forced(spec: RunSpec) -> dict[str, Any]:
    given = {n: v for n in Parallelism.model_fields if (v := getattr(spec.parallelism, n)) is not None}
    given.pop("stages", None)
    if spec.micro_batch_size != "auto":
        given["micro_batch_size"] = spec.micro_batch_size
    if spec.recompute != "auto":
        given["recompute"] = spec.recompute
    if spec.train is None:
        for name in ENGINE_LIMITS[spec.engine]:
            given.setdefault(name, 1)
    if spec.engine == "deepspeed" and spec.offload.parameters != "none":
        given.setdefault("zero", 3)
    if spec.engine == "native" and spec.train is None and spec.offload.optimizer != "none":
        given = {**NATIVE_OFFLOAD, **given}
    return given
