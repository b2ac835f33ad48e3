"""Seconds that one rank computes: matrix multiplications, attention, memory-bound operators, loss, optimizer.

A matrix multiplication takes its FLOPs at the sustained rate plus the share of its memory traffic that compute does
not hide plus a start cost, which makes efficiency depend on shape. Gives seconds of one layer for one micro-batch,
before any communication. Must not know schedules, links or the number of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.planner.constants import Constants
from trainwright.planner.workload import ELEMENT_BYTES, OPTIMIZER_BYTES, Machine, Workload

#: Keys of a row up to which an unfused softmax streams at full bandwidth.
SOFTMAX_ROW = 1024.0


@dataclass(frozen=True, slots=True)
class LayerSeconds:
    """One mean layer, one micro-batch, one rank. ``attention_*`` is the part that selective recompute repeats."""

    forward: float
    backward: float
    attention_forward: float
    #: Matrix-multiplication seconds of the weight gradients: what may hide backward collectives.
    weight_gradient: float
    #: Attention seconds of one pass: what may hide context-parallel sends.
    core_attention: float


class Compute:
    """The compute of one workload on one kind of accelerator."""

    def __init__(self, workload: Workload, machine: Machine, constants: Constants):
        self._w = workload
        self._chip = constants.chip
        self._stack = constants.stack
        self._element = ELEMENT_BYTES[workload.precision]
        fp8 = workload.precision == "fp8"
        gemm = constants.chip.gemm_efficiency_fp8 if fp8 else constants.chip.gemm_efficiency
        self._gemm_flops = machine.flops(workload.precision) * gemm
        self._half_flops = machine.flops("fp32" if workload.precision == "fp32" else "bf16")
        self._bandwidth = machine.memory_bandwidth * constants.chip.memory_efficiency
        self._fp8 = fp8

    def gemm(self, m: float, n: float, k: float, out_bytes: float = 0.0, flops: float = 0.0) -> float:
        """Seconds of (m × k)·(k × n); ``out_bytes`` per output element where it is accumulated in fp32."""
        rate = flops or self._gemm_flops
        element = 1.0 if self._fp8 and not flops else self._element
        traffic = (m * k + k * n) * element + m * n * (out_bytes or self._element)
        return 2.0 * m * n * k / rate + self._chip.gemm_traffic * traffic / self._bandwidth + self._chip.gemm_seconds

    def moved(self, size: float, kernels: float = 1) -> float:
        """Seconds of memory-bound kernels that move ``size`` bytes."""
        return size / self._bandwidth + kernels * self._chip.kernel_seconds

    def _matmuls(self, shapes: list[tuple[float, float, float, float]]) -> tuple[float, float, float]:
        """(forward, input gradients, weight gradients) of matrices (rows, outputs, inputs, copies)."""
        forward = grad_in = grad_weight = 0.0
        train = self._w.method == "full"
        for m, n, k, copies in shapes:
            forward += copies * self.gemm(m, n, k)
            grad_in += copies * self.gemm(m, k, n)
            if train:
                grad_weight += copies * self.gemm(n, k, m, out_bytes=8.0)
        return forward, grad_in, grad_weight

    def layer(self, tp: int, cp: int, ep: int, micro_batch_size: int, sequence_parallel: bool) -> LayerSeconds:
        """Seconds of the mean layer."""
        w, d, stack = self._w, self._w.dims, self._stack
        tokens = micro_batch_size * w.sequence_length / cp
        qkv = max(1.0, d.attention_params / d.hidden - d.q_size)
        inward = 2 if d.gated else 1
        shapes: list[tuple[float, float, float, float]] = [
            (tokens, qkv / tp, d.hidden, 1),
            (tokens, d.hidden, d.q_size / tp, 1),
        ]
        if d.ffn:
            shapes += [(tokens, inward * d.ffn / tp, d.hidden, 1), (tokens, d.hidden, d.ffn / tp, 1)]
        routed = 0.0
        if d.experts:
            share = d.moe_layers / d.layers
            local = max(1.0, d.experts / ep)
            rows = tokens * d.top_k / local
            routed = share * tokens * d.top_k
            shapes += [
                (rows, inward * d.expert_ffn / tp, d.hidden, share * local),
                (rows, d.hidden, d.expert_ffn / tp, share * local),
                (tokens, d.experts, d.hidden, share),
            ]
        forward, grad_in, grad_weight = self._matmuls(shapes)

        core_forward, core_backward = self._attention(tokens, tp)
        ffn_elements = (tokens * d.ffn + routed * d.expert_ffn) / tp * (1.5 if d.gated else 1.0)
        hidden_cut = tp if sequence_parallel else 1
        scale = self._element / 2
        pointwise = scale * (
            stack.hidden_traffic * tokens * d.hidden / hidden_cut
            + stack.ffn_traffic * ffn_elements
            # Routing permutes and un-permutes every copy of a token: read and write, there and back.
            + 4 * self._element * routed * d.hidden
        )
        if self._fp8:
            # Casting every matrix input to 8 bits: read two bytes, write one (and its transpose for backward).
            pointwise += 4.0 * sum(m * k * copies for m, n, k, copies in shapes)
        point_forward = self.moved(pointwise, stack.kernels_forward)
        point_backward = self.moved(1.5 * pointwise, stack.kernels_backward)
        if w.method != "full":
            adapters = stack.adapter_linears
            low = w.lora_rank
            one = self.gemm(tokens, low, d.hidden) + self.gemm(tokens, d.hidden / tp, low)
            forward += adapters * one
            grad_in += 2 * adapters * one
            if w.method == "qlora":
                # Each pass unpacks 4-bit weights to 16 bits before it multiplies.
                unpack = self.moved(2.5 * d.dense_layer_params / tp, 8)
                forward += unpack
                grad_in += unpack
        return LayerSeconds(
            forward=forward + core_forward + point_forward,
            backward=grad_in + grad_weight + core_backward + point_backward,
            attention_forward=core_forward,
            weight_gradient=grad_weight,
            core_attention=core_forward,
        )

    def _attention(self, tokens: float, tp: int) -> tuple[float, float]:
        """(forward, backward) of scores, softmax and values. Fused kernels skip the masked half."""
        w, d, stack, chip = self._w, self._w.dims, self._stack, self._chip
        span = d.attention_span(w.sequence_length)
        flops = 4.0 * tokens * span * d.q_size / tp
        if stack.flash:
            if d.causal:
                flops /= 2
            # Small heads and short rows feed the tensor cores badly.
            fit = stack.attention_scale * min(1.1, 1.25 * d.head_dim / (d.head_dim + 32.0)) * span / (span + 256.0)
            forward = flops / (self._half_flops * chip.attention_forward * fit)
            backward = 2.5 * flops / (self._half_flops * chip.attention_backward * fit)
            return forward + 2 * chip.kernel_seconds, backward + 4 * chip.kernel_seconds
        # A softmax kernel keeps a row in the registers of one warp: longer rows leave it fewer warps to hide latency.
        scores = tokens * span * d.heads / tp * min(4.0, max(1.0, span / SOFTMAX_ROW))
        rate = self._half_flops * chip.gemm_efficiency * d.head_dim / (d.head_dim + 64.0)
        return (
            flops / rate + self.moved(stack.score_forward * scores, 5),
            2 * flops / rate + self.moved(stack.score_backward * scores, 8),
        )

    def head(self, tp: int, cp: int, micro_batch_size: int) -> float:
        """Forward and backward of the output head and the loss, one micro-batch."""
        d = self._w.dims
        if not d.has_head:
            return 0.0
        tokens = micro_batch_size * self._w.sequence_length / cp
        forward, grad_in, grad_weight = self._matmuls([(tokens, d.vocab / tp, d.hidden, 1)])
        traffic = self._stack.logit_traffic if tp > 1 else self._stack.logit_traffic_whole
        return forward + grad_in + grad_weight + self.moved(traffic * tokens * d.vocab / tp, 12)

    def embedding(self, cp: int, micro_batch_size: int) -> float:
        """Look-up and its scattered gradient, one micro-batch."""
        tokens = micro_batch_size * self._w.sequence_length / cp
        return self.moved(10.0 * tokens * self._w.dims.hidden, 6)

    def optimizer(self, updated: float) -> float:
        """One update of ``updated`` parameters on this rank: norm, clip, moments, weights.

        Reads gradient twice and writes it once (clipping), reads and writes master and moments, writes weights.
        """
        state = OPTIMIZER_BYTES[self._w.optimizer]
        return self.moved(updated * (12.0 + 2 * 4.0 + 2 * state + 2.0), 20)
