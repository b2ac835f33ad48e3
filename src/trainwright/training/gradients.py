"""The gradient's norm over all parameters and clipping by it, exact whatever is sharded, replicated or both.

Takes parameters whose gradients are plain tensors or DTensors; gives the norm over the whole model, equal on every
rank. Nothing here reads a value back from the device.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

Groups = tuple[dist.ProcessGroup, ...]


def local_gradients(parameters: Iterable[nn.Parameter]) -> list[tuple[Tensor, Groups]]:
    """Each gradient's local part, and the process groups over which its other parts lie (none: it is whole here)."""
    found = []
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None:
            continue
        if isinstance(gradient, DTensor):
            mesh = gradient.device_mesh
            groups = tuple(
                mesh.get_group(dim)
                for dim, placement in enumerate(gradient.placements)
                # What FSDP has cut after tensor parallelism did is "strided", which is_shard() does not call a shard.
                if not placement.is_replicate() and mesh.size(dim) > 1
            )
            found.append((gradient.to_local(), groups))
        else:
            found.append((gradient, ()))
    return found


def gradient_norm(
    gradients: list[tuple[Tensor, Groups]], device: torch.device, others: dist.ProcessGroup | None = None
) -> Tensor:
    """Euclidean norm of the whole gradient, a scalar of at least fp32. A replicated part counts once.

    ``others`` are ranks whose gradients are of other parts of the model (stages of a pipeline).
    """
    parts: dict[Groups, list[Tensor]] = {}
    for gradient, groups in gradients:
        parts.setdefault(groups, []).append(gradient)
    total: Tensor | None = None
    for groups, tensors in parts.items():
        norms = torch.stack(torch._foreach_norm(tensors))
        # Offloaded gradients are in host memory; what ranks add up is on the device.
        squares = (norms if norms.dtype == torch.float64 else norms.float()).square().sum().to(device)
        for group in groups:
            squares = sum_over_shards(squares, group)
        total = squares if total is None else total + squares
    if total is None:
        total = torch.zeros((), device=device)
    if others is not None:
        total = sum_over_stages(total, others)
    return total.sqrt()


def sum_over_shards(squares: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Add up the shards' sums of squares; without it every rank would clip by its own norm."""
    dist.all_reduce(squares, group=group)
    return squares


def sum_over_stages(squares: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Add up what the stages of a pipeline have; in double precision on the way, so that types agree."""
    wide = squares.double()
    dist.all_reduce(wide, group=group)
    return wide.to(squares.dtype)


def scale_gradients(gradients: list[tuple[Tensor, Groups]], factor: Tensor) -> None:
    """Multiply every gradient in place by a scalar."""
    tensors = [gradient for gradient, _ in gradients]
    if tensors:
        torch._foreach_mul_(tensors, factor.to(tensors[0].device))


def clip_factor(norm: Tensor, limit: float | None, divisor: float = 1.0) -> Tensor | None:
    """What gradients are multiplied by: min(1, limit ÷ norm) ÷ divisor; None when that is always one.

    ``norm`` is that of the true gradient; ``divisor`` the loss scale that gradients still carry.
    """
    if limit is None:
        return None if divisor == 1.0 else torch.full_like(norm, 1.0 / divisor)
    # The same guard as torch.nn.utils.clip_grad_norm_: a norm of zero leaves gradients as they are.
    factor = (limit / (norm + 1e-6)).clamp_(max=1.0)
    return factor if divisor == 1.0 else factor / divisor
