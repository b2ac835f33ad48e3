"""Weights of a sharded model: one rank reads them, every rank gets its shards.

Other ranks build the model without memory (on the meta device). So a node's host memory holds the model once, not
once for each rank, and storage is read once. Buffers travel too: those that no checkpoint holds (rotary frequencies)
would otherwise stay uninitialised.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


class Weights:
    """What the whole model holds, noted before anything is cut and shared out after everything is.

    Rank 0 has the values; the others only names, shapes and types. A rank may keep any part of the model by then:
    shards of a parameter, some of the blocks.
    """

    def __init__(self, network: nn.Module):
        self._network = network
        self._first = dist.get_rank() == 0
        self._parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}
        self._buffers = dict(network.named_buffers())

    def share_out(self, device: torch.device, kept: torch.device) -> None:
        """Fill every rank's shards, which are ``kept`` there, and buffers from rank 0's values. Collective; one
        parameter is on its way at a time.
        """
        if not self._first:
            _materialise(self._network, kept)
            if kept != device:
                move_buffers(self._network, device)
        parameters = dict(self._network.named_parameters(remove_duplicate=False))
        buffers = dict(self._network.named_buffers())
        with torch.no_grad():
            while self._parameters:
                name = next(iter(self._parameters))
                value = self._sent(self._parameters.pop(name), device)
                if name in parameters:
                    copy_part(parameters[name], value)
            for name, buffer in self._buffers.items():
                value = self._sent(buffer, device)
                if name in buffers and not self._first:
                    buffers[name].copy_(value)

    def _sent(self, value: Tensor, device: torch.device) -> Tensor:
        """Rank 0's value on every rank."""
        whole = value.to(device) if self._first else torch.empty(value.shape, dtype=value.dtype, device=device)
        whole = whole.contiguous()
        dist.broadcast(whole, src=0)
        return whole


def copy_part(parameter: Tensor, whole: Tensor) -> None:
    """Copy this rank's part of ``whole`` into ``parameter``, whatever its placements."""
    if isinstance(parameter, DTensor):
        parameter.to_local().copy_(part_of(whole, parameter))
    else:
        parameter.copy_(whole)


def part_of(whole: Tensor, like: DTensor) -> Tensor:
    """This rank's part of ``whole`` under the placements of ``like``.

    Inner mesh dimensions cut first: tensor and expert parallelism are applied before FSDP, which stands left of them.
    """
    coordinate = like.device_mesh.get_coordinate()
    assert coordinate is not None
    part = whole
    for dimension in reversed(range(like.device_mesh.ndim)):
        placement = like.placements[dimension]
        along = getattr(placement, "dim", None)
        if along is not None:
            pieces = part.chunk(like.device_mesh.size(dimension), dim=along)
            place = coordinate[dimension]
            part = pieces[place] if place < len(pieces) else part.narrow(along, 0, 0)
    return part


def move_buffers(module: nn.Module, device: torch.device) -> None:
    """Move what is no parameter."""
    for owner in module.modules():
        for name, buffer in owner.named_buffers(recurse=False):
            owner._buffers[name] = buffer.to(device)


def _materialise(module: nn.Module, device: torch.device) -> None:
    """Give parameters and buffers memory. ``to_empty`` makes a parameter of each place; tied ones are tied again."""
    places: dict[int, list[tuple[nn.Module, str]]] = {}
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            places.setdefault(id(parameter), []).append((owner, name))
    module.to_empty(device=device)
    for first, *others in places.values():
        for owner, name in others:
            owner._parameters[name] = first[0]._parameters[first[1]]
