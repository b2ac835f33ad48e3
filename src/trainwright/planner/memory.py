"""Bytes that one rank holds at its peak, by kind and by pipeline stage.

Static part: bytes per parameter of the stack's recipe, cut by ZeRO as in Rajbhandari et al. 2020 (§3) and by what
DeepSpeed's code (not its page) keeps. Activations: Korthikanti et al. 2022 (eq. 1–6), with the coefficients of
the stack and of grouped-query, gated and mixture-of-experts layers. Must not know time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trainwright.planner.constants import StackConstants
from trainwright.planner.plan import RankBytes
from trainwright.planner.schedule import in_flight
from trainwright.planner.workload import ELEMENT_BYTES, OPTIMIZER_BYTES, Workload

#: Tokens that a rank's experts may get, in mean shares: the capacity factor that mixtures are commonly trained with
#: (Fedus et al. 2021, Switch Transformer, table 1). Without a capacity no bound exists; planning for less is rash.
CAPACITY = 1.25
#: Bytes of a 4-bit weight: NF4 with two levels of scales, 4.127 bits (Dettmers et al. 2023).
FOUR_BIT = 4.127 / 8


class Cut(Protocol):
    """What the formulas read of a layout; ``Layout`` and the search's tuples both have it."""

    @property
    def pp(self) -> int: ...
    @property
    def dp_replicate(self) -> int: ...
    @property
    def dp_shard(self) -> int: ...
    @property
    def cp(self) -> int: ...
    @property
    def tp(self) -> int: ...
    @property
    def ep(self) -> int: ...
    @property
    def zero(self) -> int: ...
    @property
    def sequence_parallel(self) -> bool: ...
    @property
    def schedule(self) -> str: ...
    @property
    def micro_batch_size(self) -> int: ...
    @property
    def micro_batches(self) -> int: ...
    @property
    def recompute(self) -> str: ...


def layer_activation_bytes(
    workload: Workload,
    stack: StackConstants,
    *,
    micro_batch_size: int,
    tp: int = 1,
    cp: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
) -> float:
    """Bytes kept for the backward pass of one mean layer and one micro-batch (Korthikanti et al. 2022, eq. 1–6).

    For a GPT layer with dropout under ``megatron_2021`` this is exactly s·b·h·(10 + 24/t + 5·a·s/(h·t)); with
    sequence parallelism s·b·h/t·(34 + 5·a·s/h); selective recompute drops the 5·a·s term; full keeps 2·s·b·h.
    """
    d = workload.dims
    element = ELEMENT_BYTES[workload.precision]
    scale = element / 2
    tokens = micro_batch_size * workload.sequence_length / cp
    cut = tp if sequence_parallel else 1
    if recompute == "full":
        return element * tokens * d.hidden / cut
    inner = stack.activation_attention * (2 * d.q_size + 2 * d.kv_size)
    # Two dropout masks of one byte each, after attention and after the MLP.
    hidden = stack.activation_hidden + (2 if d.dropout else 0)
    ffn = stack.activation_ffn * d.ffn * (1.5 if d.gated else 1.0)
    routed = routed_elements(workload, stack, tp)
    scores = stack.activation_score * d.heads * d.attention_span(workload.sequence_length)
    if recompute == "selective":
        scores = 0.0
    if workload.method != "full":
        # Frozen weights need no input for their gradient, but adapters do (and keep a low-rank product each).
        inner += stack.activation_attention * 4 * workload.lora_rank
    kept = hidden * d.hidden / cut + (inner + ffn + scores) / tp + routed
    return scale * tokens * kept


def routed_elements(workload: Workload, stack: StackConstants, tp: int) -> float:
    """Half-precision bytes that the experts of one mean layer keep for each token, all its routed copies together."""
    d = workload.dims
    if not d.experts:
        return 0.0
    # Each routed copy keeps its input too, beside the expert's inner activations.
    inner = stack.activation_ffn * d.expert_ffn * (1.5 if d.gated else 1.0) / tp
    return d.moe_layers / d.layers * d.top_k * (2 * d.hidden + inner)


def deepspeed_bytes(params: float, largest_layer: float, gpus: int, stage: int, offload: str = "none") -> float:
    """Bytes per GPU that DeepSpeed's own estimators give, activations left out.

    ``runtime/zero/stage_1_and_2.py`` and ``stage3.py`` as of 2026; ``offload``: none, optimizer, all. The published
    page (memory.rst) is older than this code and gives 4P + 16P/N for stage 2. There is no estimator for stage 1.
    """
    if stage == 2:
        return 2 * params + (18 * params / gpus if offload == "none" else 0.0)
    if stage == 3:
        shards = {"none": 18 * params / gpus, "optimizer": 2 * params / gpus, "all": 0.0}[offload]
        return 4 * largest_layer + shards
    raise ValueError(f"DeepSpeed has no estimator for stage {stage}")


class Memory:
    """The memory of one workload under one stack, on any layout."""

    def __init__(self, workload: Workload, stack: StackConstants):
        self._w = workload
        self._stack = stack
        self._element = ELEMENT_BYTES[workload.precision]
        self._layer_cache: dict[tuple[int, int, int, bool, str], float] = {}

    def stage_params(
        self, cut: Cut, layers: float, first: bool, last: bool
    ) -> tuple[float, float, tuple[float, float]]:
        """(dense, experts, (root unit, block unit)) parameters of one rank of a stage before any sharding."""
        d = self._w.dims
        tp = cut.tp
        block = (d.attention_params + d.mlp_params) / tp + d.norm_params
        expert_block = d.expert_params / (cut.ep * tp) if d.experts else 0.0
        share = d.moe_layers / d.layers if d.layers else 0.0
        root = 0.0
        if first:
            root += d.embedding_params / tp
        if last:
            root += d.head_params / tp + d.final_params
            if d.tied and d.has_head and not first:
                root += d.vocab * d.hidden / tp  # the tied table lives on both ends of the pipe
        return layers * block + root, layers * share * expert_block, (root, block + expert_block)

    def rank(self, cut: Cut, stage: int, layers: float, chunks: int = 1, *, with_reserve: bool = True) -> RankBytes:
        """Peak bytes of a rank of pipeline stage ``stage`` that holds ``layers`` layers in ``chunks`` chunks."""
        stack = self._stack
        dense, experts, units = self.stage_params(cut, layers, stage == 0, stage == cut.pp - 1)
        weights, gradients, master, optimizer = self.static(cut, dense, experts, units[0])
        communication = self.communication(cut, dense + experts, units)
        activations, logits = self.dynamic(cut, stage, layers, chunks)
        reserve = 0.0
        if with_reserve:
            uneven = self.uneven(cut, stage, layers, chunks)
            moving = activations + logits + communication + uneven
            reserve = stack.reserve_bytes + stack.fragmentation * moving + uneven
        return RankBytes(
            weights=round(weights),
            gradients=round(gradients),
            master=round(master),
            optimizer=round(optimizer),
            activations=round(activations),
            logits=round(logits),
            communication=round(communication),
            reserve=round(reserve),
        )

    def dynamic(self, cut: Cut, stage: int, layers: float, chunks: int = 1) -> tuple[float, float]:
        """(activations, logits) bytes of a rank: what no split of the data-parallel ranks changes."""
        w, d, stack = self._w, self._w.dims, self._stack
        alive = in_flight(cut.schedule, stage, cut.pp, cut.micro_batches, chunks)
        tokens = cut.micro_batch_size * w.sequence_length / cut.cp
        hidden_cut = cut.tp if cut.sequence_parallel else 1
        activations = self._layer(cut) * layers * alive
        if cut.recompute == "full":
            # While a layer is recomputed and differentiated its whole activations exist once more.
            whole = self._layer(cut, "none")
            activations = min(activations + whole, whole * layers * alive)
        if stage == 0:
            activations += self._element * tokens * d.hidden / hidden_cut * alive
        # Gradients of the widest tensors on the way back: two of the hidden state, one of the MLP's or attention's.
        inward = 2 if d.gated else 1
        # Tokens on their way to experts exist before and after the exchange, with their gradients.
        sparse = d.top_k * (4 * d.hidden + d.expert_ffn * inward / cut.tp) if d.experts else 0.0
        width = d.hidden * 2 / hidden_cut + max(d.ffn * inward / cut.tp, (d.q_size + 2 * d.kv_size) / cut.tp, sparse)
        activations += self._element * tokens * width + stack.workspace_bytes
        logits = 0.0
        if stage == cut.pp - 1 and d.has_head:
            logits = stack.logit_bytes * tokens * d.vocab / cut.tp
            if stack.logit_chunk_bytes:
                # Logits, softmax and gradient of one chunk, the hidden gradient, and the head's gradient in fp32
                # where the head is trained.
                chunked = 3 * stack.logit_chunk_bytes + tokens * d.hidden * self._element
                if w.method == "full":
                    chunked += 4.0 * d.vocab * d.hidden / cut.tp
                logits = min(logits, chunked)
        return activations, logits

    def uneven(self, cut: Cut, stage: int, layers: float, chunks: int = 1) -> float:
        """Bytes beyond the mean that a rank may hold because the router sends its experts more than their share."""
        if cut.ep == 1:
            return 0.0
        alive = in_flight(cut.schedule, stage, cut.pp, cut.micro_batches, chunks)
        tokens = cut.micro_batch_size * self._w.sequence_length / cut.cp
        held = min(1.0, layers * alive) if cut.recompute == "full" else layers * alive
        routed = self._element / 2 * tokens * routed_elements(self._w, self._stack, cut.tp)
        return (CAPACITY - 1) * routed * held

    def total(self, cut: Cut, params: tuple[float, float, tuple[float, float]], dynamic: float) -> float:
        """Peak bytes from ``stage_params`` and ``dynamic`` + ``uneven``: the search's shortcut to ``rank()``."""
        dense, experts, units = params
        communication = self.communication(cut, dense + experts, units)
        moving = dynamic + communication
        return (
            sum(self.static(cut, dense, experts, units[0]))
            + moving
            + self._stack.reserve_bytes
            + self._stack.fragmentation * moving
        )

    def _layer(self, cut: Cut, recompute: str = "") -> float:
        recompute = recompute or cut.recompute
        key = (cut.micro_batch_size, cut.tp, cut.cp, cut.sequence_parallel, recompute)
        value = self._layer_cache.get(key)
        if value is None:
            value = self._layer_cache[key] = layer_activation_bytes(
                self._w,
                self._stack,
                micro_batch_size=cut.micro_batch_size,
                tp=cut.tp,
                cp=cut.cp,
                sequence_parallel=cut.sequence_parallel,
                recompute=recompute,
            )
        return value

    def static(self, cut: Cut, dense: float, experts: float, root: float = 0.0) -> tuple[float, float, float, float]:
        """(weights, gradients, master, optimizer) bytes of a rank that holds these parameters before sharding.

        ``root``: those of ``dense`` that are embedding, head or final norm, which QLoRA leaves in 16 bits.
        """
        w = self._w
        state = w.state
        shard = cut.dp_shard * cut.cp
        held = dense + experts
        sharded = dense / shard + experts / (shard / cut.ep)
        if w.method == "full":
            trained, trained_sharded, weight_bytes = held, sharded, state.weights
        else:
            share = w.lora_params / d_params if (d_params := w.dims.params) else 0.0
            trained, trained_sharded = held * share, sharded * share
            weight_bytes = FOUR_BIT if w.method == "qlora" else float(self._element)
        cut_weights = cut.zero >= (1 if state.fsdp else 3)
        weights = weight_bytes * (sharded if cut_weights else held)
        if w.method == "qlora":
            weights += (self._element - FOUR_BIT) * (root / shard if cut_weights else root)
        if w.method != "full":
            weights += state.weights * (trained_sharded if cut_weights else trained)
        gradients = state.gradients * (trained_sharded if cut.zero >= 2 else trained)
        if cut.zero >= 3 and not state.spare_gradients:
            gradients = 0.0
        stepped = trained_sharded if cut.zero >= 1 else trained
        master = state.master * stepped
        optimizer = OPTIMIZER_BYTES[w.optimizer] * stepped
        if w.offload_optimizer != "none":
            master = optimizer = 0.0
            if state.fsdp and cut.zero >= 1:
                # The shards that are updated are the fp32 weights: these leave too, and gradients once reduced.
                weights = 0.0
                gradients = gradients if cut.zero == 1 else 0.0
        if w.offload_parameters != "none":
            weights = 0.0
        return weights, gradients, master, optimizer

    def host_bytes(self, cut: Cut, dense: float, experts: float) -> float:
        """Bytes of host memory that one rank needs for what is offloaded, with DeepSpeed's buffer factor 1.5; torch
        keeps exactly the shards of weights, gradients and optimizer state.
        """
        w = self._w
        kept = (w.offload_optimizer == "cpu", w.offload_parameters == "cpu")
        if not any(kept):
            return 0.0
        shard = cut.dp_shard * cut.cp
        stepped = (dense / shard + experts / (shard / cut.ep)) if cut.zero >= 1 else dense + experts
        share = 1.0 if w.method == "full" else w.lora_params / max(1, w.dims.params)
        if w.state.fsdp:
            return (w.state.weights + (w.state.gradients + OPTIMIZER_BYTES[w.optimizer]) * share) * stepped
        total = 0.0
        if kept[0]:
            # 16 bytes in all (stage3.py); DeepSpeed's recipe counts fp32 gradients with the master weights.
            gradients = 0.0 if w.recipe == "deepspeed" else 4.0
            total += (w.state.master + OPTIMIZER_BYTES[w.optimizer] + gradients) * stepped * share
        if kept[1]:
            total += w.state.weights * stepped
        return 1.5 * total

    def communication(self, cut: Cut, held: float, units: tuple[float, float]) -> float:
        """Gathered parameters and gradients being reduced, beyond the sharded state."""
        w, state = self._w, self._w.state
        unit = max(units)
        train = w.method == "full"
        gathered = state.gathered if train or w.method == "lora" else FOUR_BIT
        if cut.zero >= 3:
            # The root (never resharded within a pass), the block in use and the prefetched one, and one unit's
            # unsharded gradients on their way.
            root, block = units
            whole = root * state.gathered + 2 * block * gathered
            return whole + (unit * (state.gathered + state.reduced) if train else 0.0)
        if state.fsdp and cut.zero:
            # Everything stays gathered for both passes; stage 2 reduces one unit's gradients at a time.
            whole = held * gathered + units[0] * (state.gathered - gathered)
            return whole + (unit * state.reduced if train and cut.zero == 2 else 0.0)
        if not state.fsdp and cut.zero == 2:
            return unit * state.reduced if train else 0.0
        if state.weights > state.gathered and train:
            return held * state.gathered  # autocast keeps a 16-bit copy until the backward pass
        return 0.0

    def ranks(self, cut: Cut, stages: Sequence[int], *, with_reserve: bool = True) -> list[RankBytes]:
        """One entry per pipeline stage; ``stages`` holds the layers of each virtual stage."""
        chunks = max(1, len(stages) // cut.pp)
        return [self.rank(cut, s, sum(stages[s :: cut.pp]), chunks, with_reserve=with_reserve) for s in range(cut.pp)]
