"""Weights of a sharded model: one rank reads them, every rank gets its shards.

Other ranks build the model without memory (on the meta device). So a node's host memory holds the model once, not
once for each rank, and storage is read once. Buffers travel too: those that no checkpoint holds (rotary frequencies)
would otherwise stay uninitialised.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


def held_by_first(module: nn.Module) -> dict[str, Tensor]:
    """The whole parameters of rank 0, to be kept from before sharding until ``share_out``."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def share_out(module: nn.Module, whole: dict[str, Tensor], device: torch.device) -> None:
    """Fill every rank's shards and buffers from rank 0's ``whole`` parameters (empty elsewhere). Collective.

    One parameter is on its way at a time.
    """
    first = dist.get_rank() == 0
    if not first:
        _materialise(module, device)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            assert isinstance(parameter, DTensor)
            source = (
                whole.pop(name).to(device)
                if first
                else torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
            )
            parts = distribute_tensor(source, parameter.device_mesh, parameter.placements)
            if not first:
                parameter.to_local().copy_(parts.to_local())
        for buffer in module.buffers():
            dist.broadcast(buffer, src=0)


def _materialise(module: nn.Module, device: torch.device) -> None:
    """Give parameters and buffers memory. ``to_empty`` makes a parameter of each place; tied ones are tied again."""
    places: dict[int, list[tuple[nn.Module, str]]] = {}
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            places.setdefault(id(parameter), []).append((owner, name))
    module.to_empty(device=device)
    for first, *others in places.values():
        for owner, name in others:
            setattr(owner, name, getattr(*first))
