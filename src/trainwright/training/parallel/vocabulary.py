"""The vocabulary cut over tensor ranks: embedding, head and cross-entropy, without full logits anywhere.

Takes modules whose tables are cut by rows; each rank looks up, and scores, the tokens of its rows alone. A vocabulary
that tensor ranks do not divide leaves the last one fewer rows: nothing is padded, so checkpoints and the loss never
see a row that is no token.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainwright.training import loss as whole
from trainwright.training.parallel.region import TensorRanks


class Vocabulary:
    """Which rows of a table of ``size`` tokens are this rank's, and the loss over all of them."""

    def __init__(self, size: int, ranks: TensorRanks):
        self.ranks = ranks
        self.width = -(-size // ranks.size)
        self.start = min(size, ranks.rank * self.width)
        self.stop = min(size, self.start + self.width)

    def local(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(row of each token in this rank's part, whether it is there). Rows of tokens elsewhere are any."""
        here = (tokens >= self.start) & (tokens < self.stop)
        return (tokens - self.start).clamp(0, max(0, self.stop - self.start - 1)), here

    def chunked_cross_entropy(
        self, hidden: Tensor, head: Tensor, labels: Tensor, weight: float, in_parts: bool = False
    ) -> tuple[Tensor, Tensor]:
        """As ``loss.chunked_cross_entropy``, with ``head`` [rows of this rank, H]; equal on every rank."""
        hidden = self.ranks.copy(hidden)
        training = torch.is_grad_enabled()
        out: tuple[Tensor, Tensor] = _FromHidden.apply(hidden, head, labels, weight, self, training, in_parts)
        return out

    def logits_cross_entropy(self, logits: Tensor, labels: Tensor, weight: float) -> tuple[Tensor, Tensor]:
        """As ``loss.logits_cross_entropy``, with the scores of this rank's rows [N, rows]."""
        wide = logits if logits.dtype == torch.float64 else logits.float()
        out: tuple[Tensor, Tensor] = _FromLogits.apply(wide, labels, weight, self)
        return out

    def entropy(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(sum of the cross-entropy, its derivative by ``logits``), which are overwritten."""
        row, here = self.local(labels)
        largest = logits.amax(-1, keepdim=True) if logits.shape[1] else logits.new_full((len(logits), 1), -torch.inf)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.ranks.group)
        logits.sub_(largest)
        target = torch.zeros_like(largest)
        if logits.shape[1]:
            target = logits.gather(1, row[:, None]).where(here[:, None], target)
        exponentials = logits.exp_()
        sums = sum_over_vocabulary(torch.cat([exponentials.sum(-1, keepdim=True), target], 1), self.ranks)
        total, target = sums.split(1, 1)
        gradient = exponentials.div_(total)
        if gradient.shape[1]:
            gradient.scatter_add_(1, row[:, None], -here[:, None].to(gradient.dtype))
        return (total.log() - target).sum(), gradient


def sum_over_vocabulary(parts: Tensor, ranks: TensorRanks) -> Tensor:
    """Sum over tensor ranks, in place: of exponentials, and of the one target that one rank has."""
    dist.all_reduce(parts, group=ranks.group)
    return parts


class _FromHidden(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        head: Tensor,
        labels: Tensor,
        weight: float,
        vocabulary: Vocabulary,
        training: bool,
        in_parts: bool,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        matrix = head.to(hidden.dtype)
        needs_hidden = training and ctx.needs_input_grad[0]
        needs_head = training and ctx.needs_input_grad[1]
        d_hidden = torch.empty_like(hidden) if needs_hidden else None
        d_head = torch.zeros(head.shape, dtype=wide, device=head.device) if needs_head else None
        total = torch.zeros((), dtype=wide, device=hidden.device)
        # By the widest rank's rows, so that all make as many steps: each holds collectives.
        rows = max(16, whole.CHUNK_BYTES // (vocabulary.width * total.element_size()))
        for start in range(0, hidden.shape[0], rows):
            part = slice(start, start + rows)
            entropy, gradient = vocabulary.entropy((hidden[part] @ matrix.T).to(wide), labels[part])
            total += entropy
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
        return (
            None if d_hidden is None else d_hidden.mul_(outer.to(d_hidden.dtype)),
            None if d_head is None else d_head.mul_(outer.to(d_head.dtype)),
            *[None] * 5,
        )


class _FromLogits(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, weight: float, vocabulary: Vocabulary
    ) -> tuple[Tensor, Tensor]:
        if len(labels):
            total, gradient = vocabulary.entropy(logits.clone(), labels)
        else:
            total, gradient = logits.new_zeros(()), torch.zeros_like(logits)
        ctx.gradient = gradient.mul_(weight)
        ctx.mark_non_differentiable(total)
        return total * weight, total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradient, ctx.gradient = ctx.gradient, None
        return gradient.mul_(upstream[0]), None, None, None


class CutEmbedding(nn.Embedding):  # type: ignore[misc]  # torch is not typed here
    """Stands before an embedding's own class: looks up this rank's tokens and adds up what all ranks found."""

    vocabulary: Vocabulary

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T] → [B, T, H], the same on every rank."""
        row, here = self.vocabulary.local(tokens)
        if self.vocabulary.start == self.vocabulary.stop:
            found = self.weight.new_zeros((*tokens.shape, self.embedding_dim)) + self.weight.sum()
        else:
            found = super().forward(row)
        return self.vocabulary.ranks.sum(found * here[..., None])


def cut_padding(embedding: nn.Embedding, vocabulary: Vocabulary) -> None:
    """Tell an embedding which of its own rows is padding, which receives no gradient."""
    place = embedding.padding_idx
    if place is not None:
        inside = vocabulary.start <= place < vocabulary.stop
        embedding.padding_idx = place - vocabulary.start if inside else None
