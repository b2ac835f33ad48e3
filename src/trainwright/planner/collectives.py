"""What one rank of the built-in trainer exchanges in an optimizer step: kind, dimension, payload of a call, calls.

Takes a workload, a layout and the layers of its stages; gives ``plan.Collective``s, the same that real ranks are seen
to run (tests/parity/test_collectives.py). Payloads are those of full training with every position a target; what
depends on the data (tokens that meet at one expert) is the mean rank's. A few scalars a step (token counts, the norm)
are left out. Must not know time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from trainwright.planner.memory import Cut
from trainwright.planner.plan import Collective
from trainwright.planner.workload import ELEMENT_BYTES, Workload

#: (kind, dimension, payload bytes of a call, calls)
Call = tuple[str, str, float, int]

#: Bytes of trained weights' gradients, routers and sums that are never rounded; of one count or sum of losses.
_WIDE, _COUNT = 4, 8
#: Bytes of logits that the loss makes at a time, and the fewest rows (training/loss.py).
_LOGIT_BYTES, _LEAST_ROWS = 64 * 2**20, 16
#: Bytes that are summed at a time: DDP's first bucket and others, and those of training/parallel/data.py.
_DDP_FIRST, _DDP_BUCKET, _BUCKET = 2**20, 25 * 2**20, 64 * 2**20


def step_collectives(
    workload: Workload, cut: Cut, stages: Sequence[int], rank: int | None = None
) -> list[Collective]:
    """Collectives of a rank of pipeline stage ``rank`` (None: the one with most layers) in one step.

    ``stages``: layers of each virtual stage. Dimensions are those of a layout; ``dp_shard`` is over dp_shard · cp
    ranks, ``expert_data`` over those that hold the same experts, and a joint reduction names both, with a +.
    """
    if rank is None:
        layers = [sum(stages[s :: cut.pp]) for s in range(cut.pp)]
        rank = layers.index(max(layers))
    return _Rank(workload, cut, stages, rank).listed()


class _Rank:
    def __init__(self, workload: Workload, cut: Cut, stages: Sequence[int], rank: int):
        self.w, self.d, self.cut, self.m = workload, workload.dims, cut, cut.micro_batches
        self.virtual = len(stages) or cut.pp
        self.mine = [(s, stages[s]) for s in range(rank, self.virtual, cut.pp)]
        self.shard = cut.dp_shard * cut.cp
        self.sharded = cut.zero > 0 and self.shard > 1
        element = ELEMENT_BYTES[workload.precision]
        # Autocast, which stands in where FSDP casts nothing, leaves the stream of hidden states in fp32.
        stream = element if self.sharded else _WIDE
        tokens = cut.micro_batch_size * workload.sequence_length / cut.cp
        self.tokens, self.element = tokens, element
        self.stream_bytes, self.product_bytes = stream * tokens * self.d.hidden, element * tokens * self.d.hidden
        self.sparse = self.d.moe_layers / self.d.layers if self.d.experts and self.d.layers else 0.0

    def listed(self) -> list[Collective]:
        """Alike ones together."""
        counts: Counter[tuple[str, str, int]] = Counter()
        for kind, dim, size, count in self._calls():
            if round(size) and count:
                counts[kind, dim, round(size)] += count
        return [Collective(kind, dim, size, count) for (kind, dim, size), count in counts.items()]

    def _calls(self) -> Iterator[Call]:
        layers = sum(count for _, count in self.mine)
        if self.cut.tp > 1:
            yield from self._tensor(layers)
        if self.cut.cp > 1:
            yield from self._context(layers)
        if self.cut.ep > 1 and self.d.experts:
            yield from self._experts(layers)
        if self.cut.pp > 1:
            yield from self._pipeline()
        for stage, count in self.mine:
            yield from self._sharded(stage, count) if self.sharded else self._replicated(stage, count)

    # -- inside layers ---------------------------------------------------------------------------------------------

    def _tensor(self, layers: int) -> Iterator[Call]:
        """Two regions a layer. What is recomputed stops short of the last sum: backward does not need it."""
        m, again, first, last = self.m, self.cut.recompute == "full", *self._ends()
        stream, product = self.stream_bytes, self.product_bytes
        if self.cut.sequence_parallel:
            yield "all_gather", "tp", stream, (2 + 2 * again) * layers * m
            yield "reduce_scatter", "tp", product, (2 + again) * layers * m
            yield "reduce_scatter", "tp", stream, 2 * layers * m
            yield "all_gather", "tp", product, 2 * layers * m
            # Positions are split before the first block of a stage and joined behind its last.
            yield "all_gather", "tp", stream, 2 * sum(1 for _, count in self.mine if count) * m
        else:
            yield "all_reduce", "tp", product, (2 + again) * layers * m
            yield "all_reduce", "tp", stream, 2 * layers * m
        for _, count in self.mine:  # FSDP has cut them by then
            yield "all_reduce", "tp", _WIDE * self._in_parts() * count / (self.shard if self.sharded else 1), 1
        if first:
            yield "all_reduce", "tp", stream, m
        if last:
            yield "all_reduce", "tp", stream, m
            rows = max(_LEAST_ROWS, _LOGIT_BYTES // (-(-self.d.vocab // self.cut.tp) * _WIDE))
            whole, rest = divmod(int(self.tokens), rows)
            for size, count in ((rows, whole * m), (rest, m)):
                yield "all_reduce", "tp", _WIDE * size, count  # the largest score
                yield "all_reduce", "tp", 2 * _WIDE * size, count  # exponentials and the target's score

    def _in_parts(self) -> float:
        """Parameters of a layer that each tensor rank holds whole and has a part of the gradient of."""
        norms = self.d.norm_params if self.cut.sequence_parallel else 0
        return norms + self.sparse * self._router

    @property
    def _router(self) -> int:
        return self.d.hidden * self.d.experts

    def _context(self, layers: int) -> Iterator[Call]:
        """Keys, then values."""
        size = self.element * self.tokens * self.cut.cp * self.d.kv_size / self.cut.tp
        again = self.cut.recompute != "none"
        yield "all_gather", "cp", size, (2 + 2 * again) * layers * self.m
        yield "reduce_scatter", "cp", size, 2 * layers * self.m

    def _experts(self, layers: int) -> Iterator[Call]:
        """How many, there, and back."""
        calls, again = round(layers * self.sparse) * self.m, self.cut.recompute == "full"
        yield "all_to_all", "ep", _COUNT * self.d.experts, (1 + again) * calls
        yield "all_to_all", "ep", self.product_bytes * self.d.top_k, (4 + 2 * again) * calls

    # -- between stages --------------------------------------------------------------------------------------------

    def _pipeline(self) -> Iterator[Call]:
        borders = sum((stage > 0) + (stage < self.virtual - 1) for stage, _ in self.mine)
        yield "send_recv", "pp", self.stream_bytes, 2 * borders * self.m
        yield "broadcast", "pp", _COUNT * self.m, 1
        if self.d.tied and self.d.has_head and any(self._ends()):
            held = self.d.vocab * self.d.hidden / self.cut.tp / (self.shard if self.sharded else 1)
            yield "send_recv", "pp", _WIDE * held, 2

    def _ends(self) -> tuple[bool, bool]:
        """Whether this rank has the first stage, and the last."""
        return self.mine[0][0] == 0, self.mine[-1][0] == self.virtual - 1

    # -- over data ranks -------------------------------------------------------------------------------------------

    def _units(self, stage: int, layers: int) -> Iterator[tuple[float, int, bool, float]]:
        """(trained parameters, how many such units, held over the ranks of the same experts, bytes of one gathered)
        of what FSDP gathers at a time: blocks, the experts and routers that stand apart in them, and the rest.
        """
        d, tp, gathered = self.d, self.cut.tp, self.w.state.gathered
        sparse = round(layers * self.sparse)
        experts = d.expert_params / (self.cut.ep * tp) if sparse else 0.0
        # Tensor ranks hold routers whole; routers are not rounded, so where all else is they stand apart.
        router = float(self._router) if sparse else 0.0
        apart = self.w.precision != "fp32"
        block = (d.attention_params + d.mlp_params - router) / tp + d.norm_params + (0.0 if apart else router)
        if self.cut.ep > 1:
            yield experts, sparse, True, gathered
        else:
            block += experts
        if apart:
            yield router, sparse, False, _WIDE
        yield block, layers, False, gathered
        yield self._root(stage), 1, False, gathered

    def _root(self, stage: int) -> float:
        d, tp = self.d, self.cut.tp
        first, last = stage == 0, stage == self.virtual - 1
        root = first * d.embedding_params / tp + last * (d.head_params / tp + d.final_params)
        return root + (d.vocab * d.hidden / tp if last and not first and d.tied and d.has_head else 0.0)

    @property
    def _trained(self) -> float:
        return 1.0 if self.w.method == "full" else self.w.lora_params / max(1, self.d.params)

    def _sharded(self, stage: int, layers: int) -> Iterator[Call]:
        zero, m, reduced = self.cut.zero, self.m, self.w.state.reduced
        units = list(self._units(stage, layers))
        for number, (parameters, count, expert, gathered) in enumerate(units):
            root = number == len(units) - 1
            dim, ranks = ("expert_data", self.shard // self.cut.ep) if expert else ("dp_shard", self.shard)
            passes = (m if root else 2 * m) if zero >= 3 else 1
            scattered = _WIDE if gathered == _WIDE else reduced
            gradient = parameters * self._trained * scattered
            if ranks > 1:
                yield "all_gather", dim, parameters * gathered, count * passes
                yield "reduce_scatter", dim, gradient, count * (m if zero >= 2 else 1)
            if self.cut.dp_replicate > 1:
                yield "all_reduce", "dp_replicate", gradient / ranks, count

    def _replicated(self, stage: int, layers: int) -> Iterator[Call]:
        names = [n for n, size in (("dp_replicate", self.cut.dp_replicate), ("dp_shard", self.shard)) if size > 1]
        if not names:
            return
        held = {False: 0.0, True: 0.0}
        for parameters, count, expert, _ in self._units(stage, layers):
            held[expert] += parameters * count * self._trained * _WIDE
        plain = self.cut.pp == self.cut.tp == self.cut.ep == 1
        yield "all_reduce", "+".join(names), *(_ddp_buckets if plain else _buckets)(held[False])
        sparse = round(layers * self.sparse)  # each layer's experts go by themselves
        size, count = _buckets(held[True] / max(1, sparse))
        if self.shard > self.cut.ep:
            yield "all_reduce", "expert_data", size, count * sparse
        if self.cut.dp_replicate > 1:
            yield "all_reduce", "dp_replicate", size, count * sparse


def _buckets(size: float) -> tuple[float, int]:
    count = max(1, -int(-size // _BUCKET))
    return size / count, count


def _ddp_buckets(size: float) -> tuple[float, int]:
    count = 1 + max(0, -int(-(size - _DDP_FIRST) // _DDP_BUCKET))
    return size / count, count
