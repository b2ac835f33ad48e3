"""Known bugs of tensor, sequence and context parallelism, planted like those of ``mutants``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.tensor import DTensor

from trainwright.training import batches, step
from trainwright.training.parallel import context, region, tensor, vocabulary


def _counted_by_each_rank(original: Any) -> Any:
    """What tensor ranks hold alike is summed over them all the same."""

    def local_gradients(parameters: Any) -> Any:
        held = [p for p in parameters if p.grad is not None]
        found = []
        for parameter, (gradient, groups) in zip(held, original(held), strict=True):
            if isinstance(parameter.grad, DTensor):
                mesh = parameter.grad.device_mesh
                groups = tuple(mesh.get_group(dim) for dim in range(mesh.ndim) if mesh.size(dim) > 1)
            found.append((gradient, groups))
        return found

    return local_gradients


def _padding_is_scored(original: Any) -> Any:
    """Rows that would fill the last rank's table up to the others' width get scores of zero, and so probability."""

    def entropy(self: Any, logits: Tensor, labels: Tensor, derive: bool = True) -> Any:
        total, gradient = original(self, F.pad(logits, (0, self.width - logits.shape[1])), labels, derive)
        return total, None if gradient is None else gradient[:, : logits.shape[1]]

    return entropy


def _adapters_scaled(original: Any) -> Any:
    """The cut B of an adapter is also weighed by the number of ranks, as if its parts were summed."""

    def column(self: Any, module: Any, stacked: bool, attention: bool) -> None:
        original(self, module, stacked, attention)
        for name in getattr(module, "scaling", {}):
            module.scaling[name] /= self.ranks.size

    return column


def _positions_from_zero(original: Any) -> Any:
    """Each rank numbers its own positions."""

    def share_of(batch: Any, cut: Any) -> Any:
        own = original(batch, cut)
        return replace(own, position_ids=np.broadcast_to(np.arange(own.input_ids.shape[1]), own.input_ids.shape))

    return share_of


def _own_gradient_only(original: Any) -> Any:
    """Gradients of keys and values from the queries of other ranks are lost."""

    def backward(ctx: Any, *upstream: Tensor) -> Any:
        chunks = upstream[0].chunk(2 * ctx.context.cut.size, 2)
        return context.torch.cat([chunks[number] for number in ctx.context.cut.chunks()], 2), None

    return staticmethod(backward)


MUTANTS: dict[str, list[tuple[Any, str, Callable[[Any], Any]]]] = {
    "gradients of split positions are not summed": [
        (tensor, "sum_partial", lambda original: lambda flat, group: None)
    ],
    "norm counts what tensor ranks hold alike twice": [(step, "local_gradients", _counted_by_each_rank)],
    "padding of the vocabulary in the loss": [(vocabulary.Vocabulary, "entropy", _padding_is_scored)],
    "softmax over this rank's tokens": [
        (vocabulary, "sum_over_vocabulary", lambda original: lambda parts, ranks: parts)
    ],
    "cut adapters are scaled": [(tensor._Cutter, "_column", _adapters_scaled)],
    "gradient of a region's input is not summed": [
        (region.TensorRanks, "copy", lambda original: lambda self, hidden: hidden)
    ],
    "rotary positions start anew on each rank": [(batches, "share_of", _positions_from_zero)],
    "gradients of gathered keys are not summed": [(context._Gathered, "backward", _own_gradient_only)],
}
