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
        return whole.chunked_cross_entropy(hidden, head, labels, weight, in_parts, self.entropy, self.width)

    def logits_cross_entropy(self, logits: Tensor, labels: Tensor, weight: float) -> tuple[Tensor, Tensor]:
        """As ``loss.logits_cross_entropy``, with the scores of this rank's rows [N, rows]."""
        wide = logits if logits.dtype == torch.float64 else logits.float()
        out: tuple[Tensor, Tensor] = _FromLogits.apply(wide, labels, weight, self)
        return out

    def entropy(self, logits: Tensor, labels: Tensor, derive: bool = True) -> tuple[Tensor, Tensor | None]:
        """See ``loss.Entropy``; over the rows of all tensor ranks."""
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
        entropy = (total.log() - target).sum()
        if not derive:
            return entropy, None
        gradient = exponentials.div_(total)
        if gradient.shape[1]:
            gradient.scatter_add_(1, row[:, None], -here[:, None].to(gradient.dtype))
        return entropy, gradient


def sum_over_vocabulary(parts: Tensor, ranks: TensorRanks) -> Tensor:
    """Sum over tensor ranks, in place: of exponentials, and of the one target that one rank has."""
    dist.all_reduce(parts, group=ranks.group)
    return parts


class _FromLogits(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, weight: float, vocabulary: Vocabulary
    ) -> tuple[Tensor, Tensor]:
        total, gradient = logits.new_zeros(()), None
        if len(labels):
            total, gradient = vocabulary.entropy(logits.clone(), labels)
        ctx.gradient = torch.zeros_like(logits) if gradient is None else gradient.mul_(weight)
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
