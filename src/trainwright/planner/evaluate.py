"""One layout evaluated in full: bytes of every stage, seconds of a step, throughput and utilisation.

The value between the formulas and everything that reads them (search, plan, why, diff, pictures). Takes a
``StepModel`` and a layout; must not search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainwright.models.layout import Layout
from trainwright.models.stages import balanced_stages
from trainwright.planner.collectives import step_collectives
from trainwright.planner.memory import Cut
from trainwright.planner.plan import Collective, RankBytes, StepSeconds
from trainwright.planner.step import StepModel
from trainwright.planner.workload import Dims


@dataclass(frozen=True)
class Evaluated:
    """What one layout costs. ``layout.stages`` is filled in; ``ranks`` holds one entry per pipeline stage."""

    layout: Layout
    ranks: tuple[RankBytes, ...]
    seconds: StepSeconds
    capacity: int
    host_bytes: int
    host_capacity: int
    tokens_per_s: float
    mfu: float
    collectives: tuple[Collective, ...]

    @property
    def peak(self) -> int:
        """Bytes of the fullest rank."""
        return max(rank.total for rank in self.ranks)

    @property
    def fits(self) -> bool:
        """Whether every rank and every host has room."""
        return self.peak <= self.capacity and (self.host_bytes <= self.host_capacity or not self.host_bytes)


def chunks_of(layout: Layout) -> int:
    """Model chunks of one pipeline rank."""
    return max(1, len(layout.stages) // layout.pp)


def with_stages(layout: Layout, layers: int, chunks: int = 1) -> Layout:
    """The layout with balanced stages filled in where it states none."""
    if layout.stages:
        return layout
    return layout.with_(stages=balanced_stages(layers, layout.pp * chunks))


def model_flops_per_token(dims: Dims, sequence_length: int, *, full_attention: bool = True) -> float:
    """FLOPs of forward and backward per token, recomputation not counted: the numerator of MFU.

    ``full_attention`` counts every query against every key as PaLM (Chowdhery et al. 2022, appendix B) does; else
    a causal model's masked half is left out. Embedding look-ups and norms count nothing.
    """
    matrices = dims.active_params - dims.embedding_params - dims.layers * dims.norm_params - dims.final_params
    if dims.tied and dims.has_head:
        matrices += dims.vocab * dims.hidden
    attention = 2.0 * dims.layers * dims.attention_span(sequence_length) * dims.q_size
    if dims.causal and not full_attention:
        attention /= 2
    return 6.0 * (matrices + attention)


def evaluate(model: StepModel, layout: Layout, chunks: int = 1) -> Evaluated:
    """Evaluate one layout, legal or not; ``planner.legality`` says what is legal."""
    w, machine = model.workload, model.machine
    layout = with_stages(layout, w.dims.layers, chunks)
    seconds = model.seconds(layout, layout.stages)
    ranks = tuple(model.memory.ranks(layout, layout.stages))
    tokens = layout.global_batch_size * w.sequence_length
    per_second = tokens / seconds.total
    flops = model_flops_per_token(w.dims, w.sequence_length) * per_second
    if w.method != "full":
        flops *= 2 / 3  # frozen weights have no gradient: two of the three matrix products of full training
    peak = machine.flops(w.precision) * layout.world_size
    return Evaluated(
        layout=layout,
        ranks=ranks,
        seconds=seconds,
        capacity=machine.memory_bytes,
        host_bytes=host_bytes(model, layout, layout.stages),
        host_capacity=host_capacity(model),
        tokens_per_s=per_second,
        mfu=flops / peak,
        collectives=tuple(step_collectives(w, layout, layout.stages)),
    )


def host_bytes(model: StepModel, cut: Cut, stages: Sequence[int]) -> int:
    """Bytes of host memory that one node's ranks need together for what is offloaded."""
    per_rank = 0.0
    for stage in {0, cut.pp - 1}:
        layers = sum(stages[stage :: cut.pp])
        dense, experts, _ = model.memory.stage_params(cut, layers, stage == 0, stage == cut.pp - 1)
        per_rank = max(per_rank, model.memory.host_bytes(cut, dense, experts))
    return round(per_rank * model.machine.per_node)


def host_capacity(model: StepModel) -> int:
    """Bytes of host memory that training may use: a tenth is left to the system, data loading and pinned buffers."""
    return int(model.machine.host_memory_bytes * 0.9)
