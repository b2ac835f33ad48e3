"""A step sends what the plan lists and holds what the plan predicts, on every rank of every layout."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from parity.cases import Case, config
from parity.pool import Pool
from trainwright.models import registry
from trainwright.models.layout import MESH_DIMENSIONS, Layout
from trainwright.models.stages import balanced_stages
from trainwright.planner.collectives import step_collectives
from trainwright.planner.constants import constants_for
from trainwright.planner.inputs import dims_of
from trainwright.planner.memory import Memory
from trainwright.planner.workload import Workload

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

#: Everything divides: FSDP pads what does not, by less than a row.
EVEN = {
    "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
}  # fmt: skip
LENGTH, BATCH = 16, 8


def even(layout: dict[str, Any], **fields: Any) -> Case:
    """A case whose rows are full."""
    cut = {"micro_batch_size": 2, **layout}
    return Case(cut, layers=4, even=True, samples=24, precision="fp32", lr=0.01, fields=EVEN, **fields)


def mixture(layout: dict[str, Any], **fields: Any) -> Case:
    """The same with experts."""
    return even(layout, model="mixtral", **fields)


SP = {"tp": 2, "sequence_parallel": True}
TWO = {
    "ddp": even({"dp_replicate": 2}, tied=False),
    "zero 1": even({"dp_shard": 2, "zero": 1}),
    "zero 2": even({"dp_shard": 2, "zero": 2}),
    "zero 3": even({"dp_shard": 2}, tied=False),
    "zero 3, full recomputation": even({"dp_shard": 2}, recompute="full"),
    "tp": even({"tp": 2}),
    "tp, full recomputation": even({"tp": 2}, recompute="full", tied=False),
    "sp": even(SP, tied=False),
    "sp, full recomputation": even(SP, recompute="full"),
    "cp": even({"cp": 2}),
    "cp with zero 3, selective recomputation": even({"cp": 2, "zero": 3}, recompute="selective"),
    "cp, full recomputation": even({"cp": 2}, recompute="full"),
    "pp": even({"pp": 2}),
    "pp, interleaved, untied": even({"pp": 2, "schedule": "interleaved"}, tied=False),
    "pp, zero bubble": even({"pp": 2, "schedule": "zero_bubble"}),
    "ep": mixture({"dp_shard": 2, "ep": 2}),
    "ep, zero 0, full recomputation": mixture({"dp_shard": 2, "ep": 2, "zero": 0}, recompute="full"),
    "experts over tp": mixture({"tp": 2}),
    "experts over sp": mixture(SP),
    "experts, replicas": mixture({"dp_replicate": 2}),
    "experts, zero 3": mixture({"dp_shard": 2}),
}
FOUR = {
    "hsdp": even({"dp_replicate": 2, "dp_shard": 2}),
    "hsdp, zero 1": even({"dp_replicate": 2, "dp_shard": 2, "zero": 1}),
    "replicas of shards that are whole": even({"dp_replicate": 2, "dp_shard": 2, "zero": 0}),
    "tp with zero 3": even({"tp": 2, "dp_shard": 2}),
    "sp with zero 2": even({**SP, "dp_shard": 2, "zero": 2}),
    "tp with ddp": even({"tp": 2, "dp_replicate": 2}),
    "tp with pp": even({"tp": 2, "pp": 2}),
    "tp with cp": even({"tp": 2, "cp": 2}),
    "pp of four, untied": even({"pp": 4}, tied=False),
    "pp with zero 3": even({"pp": 2, "dp_shard": 2}),
    "pp with cp": even({"pp": 2, "cp": 2}),
    "ep with fsdp": mixture({"dp_shard": 4, "ep": 2}),
    "ep with hsdp": mixture({"dp_replicate": 2, "dp_shard": 2, "ep": 2}),
    "ep with replicas": mixture({"dp_replicate": 2, "dp_shard": 2, "ep": 2, "zero": 0}),
    "ep with pp": mixture({"pp": 2, "dp_shard": 2, "ep": 2}),
}
Answer = dict[str, Any]


@pytest.mark.parametrize("name", TWO)
def test_two_ranks_send_and_hold_what_is_planned(two: Pool, name: str) -> None:
    as_planned(TWO[name], two)


@pytest.mark.parametrize("name", FOUR)
def test_four_ranks_send_and_hold_what_is_planned(four: Pool, name: str) -> None:
    as_planned(FOUR[name], four)


def as_planned(case: Case, pool: Pool) -> None:
    """Calls and their bytes by kind and group are equal; bytes held within 5 %."""
    ranks = case.layout.get("dp_replicate", 1) * case.layout.get("dp_shard", 1)
    micro_batches = BATCH // (ranks * case.layout["micro_batch_size"])
    layout = Layout.from_dict({**case.layout, "micro_batches": micro_batches, "recompute": case.recompute})
    chunks = 2 if layout.schedule == "interleaved" else 1
    layout = layout.with_(stages=layout.stages or balanced_stages(case.layers, layout.pp * chunks))
    workload = Workload(
        dims_of(registry.from_config(config(case).to_dict(), name="tiny")), LENGTH, BATCH, precision="fp32"
    )
    answers = pool.run("parity.wire:step", case)
    for rank, answer in enumerate(answers):
        sends(answer, expected_calls(workload, layout, rank, answer["stage"]))
        holds(answer, workload, layout)
    routed = [sum(sum(sizes) for (kind, _), sizes in a["seen"].items() if kind == "all_to_all") for a in answers]
    planned = [
        sum(c.bytes * c.count for c in step_collectives(workload, layout, layout.stages, a["stage"]) if c.dim == "ep")
        for a in answers
    ]
    assert sum(routed) == sum(planned), "tokens to experts, over all ranks"


Calls = dict[tuple[str, tuple[int, ...]], Counter[int]]


def expected_calls(workload: Workload, layout: Layout, rank: int, stage: int) -> Calls:
    """(kind, ranks) → how often a call of so many bytes."""
    found: Calls = {}
    for one in step_collectives(workload, layout, layout.stages, stage):
        found.setdefault((one.kind, members(one.dim, layout, rank)), Counter())[one.bytes] += one.count
    return found


def members(dims: str, layout: Layout, rank: int) -> tuple[int, ...]:
    """The ranks that share all coordinates with ``rank`` but those of ``dims``."""
    rest = layout.dp_shard * layout.cp // layout.ep
    shape = [layout.pp, layout.dp_replicate, rest, layout.ep, layout.tp]
    names = ["pp", "dp_replicate", "expert_data", "ep", "tp"]
    free = {"dp_shard": ("expert_data", "ep")}
    if "cp" in dims:
        shape, names, free = list(layout.mesh_shape), list(MESH_DIMENSIONS), {}
    places = np.stack(np.unravel_index(np.arange(layout.world_size), shape))
    varied = {name for dim in dims.split("+") for name in free.get(dim, (dim,))}
    fixed = [index for index, name in enumerate(names) if name not in varied]
    same = (places[fixed] == places[fixed, rank][:, None]).all(0)
    return tuple(int(one) for one in np.flatnonzero(same))


def sends(answer: Answer, planned: Calls) -> None:
    """Equal but for all-to-alls, whose sizes are the data's."""
    seen = {key: Counter(sizes) for key, sizes in answer["seen"].items()}
    assert set(seen) == set(planned)
    for key, sizes in planned.items():
        if key[0] == "all_to_all":
            assert seen[key].total() == sizes.total(), key
        else:
            assert seen[key] == sizes, key


def holds(answer: Answer, workload: Workload, layout: Layout) -> None:
    """Weights, gradients when all are there, and optimizer state."""
    memory = Memory(workload, constants_for("cpu", "none", "native").stack)
    layers, stage = sum(layout.stages[answer["stage"] :: layout.pp]), answer["stage"]
    dense, experts, _ = memory.stage_params(layout, layers, stage == 0, stage == layout.pp - 1)
    weights, gradients, _, optimizer = memory.static(layout, dense, experts)
    if layout.zero == 1:
        gradients = weights  # whole ones exist only before the last micro-batch's end
    for name, bytes_ in (("weights", weights), ("gradients", gradients), ("optimizer", optimizer)):
        assert answer[name] == pytest.approx(bytes_, rel=0.05), name
