"""Cross-entropy summed over tokens, without ever holding the logits of a whole micro-batch.

Takes hidden states and the output head (or, for heads that are more than one matrix, logits); gives the sum over
targets times a weight. The weight is 1 ÷ valid tokens of the global batch (times what the data-parallel reduction
divides by), so gradients are those of the mean over all tokens, whatever the cut into ranks and micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

#: Bytes of logits that exist at a time. Large enough for full-speed matrix products, small enough to stay unseen
#: beside activations (a vocabulary of 128k at sequence length 8192 would otherwise take 4 GiB in fp32).
CHUNK_BYTES = 64 * 2**20


def token_weight(global_valid_tokens: int, loss_factor: float) -> float:
    """Weight of one token's loss: DESIGN rule 7. A batch without any target weighs nothing."""
    return loss_factor / global_valid_tokens if global_valid_tokens else 0.0


#: (sum of the cross-entropy, its derivative by the logits if asked for) of logits [n, V], which are overwritten.
Entropy = Callable[[Tensor, Tensor, bool], tuple[Tensor, Tensor | None]]


def entropy(logits: Tensor, labels: Tensor, derive: bool) -> tuple[Tensor, Tensor | None]:
    """See ``Entropy``; over the whole vocabulary."""
    target = labels[:, None]
    log_sum = torch.logsumexp(logits, dim=-1, keepdim=True)
    total = (log_sum - logits.gather(1, target)).sum()
    if not derive:
        return total, None
    # d(sum)/d(logits) = softmax − one-hot
    gradient = logits.sub_(log_sum).exp_()
    return total, gradient.scatter_add_(1, target, torch.full_like(target, -1, dtype=gradient.dtype))


def chunked_cross_entropy(
    hidden: Tensor,
    head: Tensor,
    labels: Tensor,
    weight: float,
    in_parts: bool = False,
    score: Entropy = entropy,
    width: int | None = None,
) -> tuple[Tensor, Tensor]:
    """(weight · sum, sum) of the cross-entropy of ``hidden`` [N, H] · ``head``ᵀ [V, H] against ``labels`` [N].

    Only the first value has a gradient. Logits are computed a chunk of rows at a time, and each chunk's gradient at
    once: memory is O(chunk · V) and no product is computed twice. The softmax runs in fp32 (fp64 for fp64 input), and
    the weight enters before gradients are rounded to the compute type, so that fp16 does not underflow.
    ``in_parts`` lets backward run twice, for ``hidden`` first and for ``head`` later, at the price of keeping both.
    ``score`` is called for each chunk; where it holds collectives, ``width`` is the most rows of ``head`` that any
    rank has, so that all make as many chunks.
    """
    training = torch.is_grad_enabled()
    rows = width or head.shape[0]
    out: tuple[Tensor, Tensor] = _ChunkedCrossEntropy.apply(
        hidden, head, labels, weight, training, in_parts, score, rows
    )
    return out


def logits_cross_entropy(logits: Tensor, labels: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """The same from ``logits`` [N, V], for models whose head is more than one matrix."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    total = F.cross_entropy(wide, labels, reduction="sum")
    return total * weight, total.detach()


class _ChunkedCrossEntropy(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        head: Tensor,
        labels: Tensor,
        weight: float,
        training: bool,
        in_parts: bool,
        score: Entropy,
        width: int,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        matrix = head.to(hidden.dtype)
        needs_hidden = training and ctx.needs_input_grad[0]
        needs_head = training and ctx.needs_input_grad[1]
        d_hidden = torch.empty_like(hidden) if needs_hidden else None
        d_head = torch.zeros(head.shape, dtype=wide, device=head.device) if needs_head else None
        total = torch.zeros((), dtype=wide, device=hidden.device)
        rows = max(16, CHUNK_BYTES // (width * total.element_size()))
        for start in range(0, hidden.shape[0], rows):
            part = slice(start, start + rows)
            found, gradient = score((hidden[part] @ matrix.T).to(wide), labels[part], needs_hidden or needs_head)
            total += found
            if gradient is None:
                continue
            gradient = gradient.mul_(weight).to(hidden.dtype)
            if d_hidden is not None:
                torch.mm(gradient, matrix, out=d_hidden[part])
            if d_head is not None:
                d_head += gradient.T @ hidden[part]
        ctx.gradients = (d_hidden, d_head if d_head is None else d_head.to(head.dtype))
        ctx.in_parts = in_parts
        ctx.mark_non_differentiable(total)
        return total * weight, total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_head = ctx.gradients
        if not ctx.in_parts:
            ctx.gradients = (None, None)
        outer = upstream[0]
        # In training the loss is the root of the graph and ``outer`` is one; the products cost one pass, no memory.
        return (
            None if d_hidden is None else d_hidden.mul_(outer.to(d_hidden.dtype)),
            None if d_head is None else d_head.mul_(outer.to(d_head.dtype)),
            *[None] * 6,
        )
