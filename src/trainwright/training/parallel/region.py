"""Where a module's work is divided over tensor ranks: what goes in, what comes out, and what its parameters are.

Takes the tensor ranks; gives functions with a backward of their own and a way to let a module compute with its own
part of DTensor parameters. It must not know any model.

Inside a region, activations differ between ranks and every gradient is a part of a sum. ``enter`` and ``leave`` are
conjugate: what one does forward the other does backward (Shoeybi et al. 2019, section 3; Korthikanti et al. 2022,
section 4 with the sequence split outside).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

#: Positions are the second dimension of hidden states [B, T, H].
SEQUENCE = 1


@dataclass(frozen=True, eq=False)
class TensorRanks:
    """The ranks that divide each layer among them. ``sequence``: between regions each holds some of the positions."""

    mesh: DeviceMesh
    sequence: bool

    @property
    def group(self) -> dist.ProcessGroup:
        """Their process group."""
        return self.mesh.get_group()

    @property
    def rank(self) -> int:
        """This rank's place among them."""
        return int(self.mesh.get_local_rank())

    @property
    def size(self) -> int:
        """How many they are."""
        return int(self.mesh.size())

    def enter(self, hidden: Tensor) -> Tensor:
        """Hidden states on their way into a region: all positions on every rank."""
        return self._pass(hidden, _gather, _scatter_sum) if self.sequence else self.copy(hidden)

    def leave(self, partial: Tensor) -> Tensor:
        """The sum of what the ranks of a region have found; with ``sequence`` only this rank's positions of it."""
        return self._pass(partial, _scatter_sum, _gather) if self.sequence else self.sum(partial)

    def copy(self, hidden: Tensor) -> Tensor:
        """``enter`` where positions are not split: the same forward, the sum of gradients backward."""
        return self._pass(hidden, _same, sum_over)

    def sum(self, partial: Tensor) -> Tensor:
        """``leave`` where positions are not split."""
        return self._pass(partial, sum_over, _same)

    def sum_inside(self, partial: Tensor) -> Tensor:
        """The sum, for what each rank then does with its own part: gradients are summed too."""
        return self._pass(partial, sum_over, sum_over)

    def split(self, hidden: Tensor) -> Tensor:
        """This rank's positions of what every rank holds alike."""
        return self._pass(hidden, _own, _gather)

    def join(self, hidden: Tensor) -> Tensor:
        """All positions on every rank, for what every rank then does alike."""
        return self._pass(hidden, _gather, _own)

    def _pass(self, tensor: Tensor, forth: Passage, back: Passage) -> Tensor:
        out: Tensor = _Passed.apply(tensor, self, forth, back)
        return out


#: What is done with a tensor on its way over the ranks.
Passage = Callable[[Tensor, TensorRanks], Tensor]


class _Passed(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """One thing forward, another backward."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: TensorRanks, forth: Passage, back: Passage) -> Tensor:
        ctx.ranks, ctx.back = ranks, back
        return forth(tensor, ranks)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.back(upstream[0], ctx.ranks), None, None, None


def _same(tensor: Tensor, ranks: TensorRanks) -> Tensor:
    return tensor.view_as(tensor)


def sum_over(tensor: Tensor, ranks: TensorRanks) -> Tensor:
    """All-reduce out of place."""
    out: Tensor = collectives.wait_tensor(collectives.all_reduce(tensor.contiguous(), "sum", ranks.group))
    return out


def _gather(tensor: Tensor, ranks: TensorRanks) -> Tensor:
    out: Tensor = collectives.wait_tensor(collectives.all_gather_tensor(tensor.contiguous(), SEQUENCE, ranks.group))
    return out


def _scatter_sum(tensor: Tensor, ranks: TensorRanks) -> Tensor:
    out: Tensor = collectives.wait_tensor(
        collectives.reduce_scatter_tensor(tensor.contiguous(), "sum", SEQUENCE, ranks.group)
    )
    return out


def _own(tensor: Tensor, ranks: TensorRanks) -> Tensor:
    return tensor.chunk(ranks.size, SEQUENCE)[ranks.rank].contiguous()


#: What a module sees of a parameter's local part (a stacked matrix: this rank's rows of each).
View = Callable[[Tensor], Tensor]


def own_part(tensor: Tensor, dimension: int, ranks: TensorRanks) -> Tensor:
    """This rank's part of a tensor, as DTensor's ``Shard`` cuts it: the last may be smaller, or nothing."""
    parts = tensor.chunk(ranks.size, dimension)
    return parts[ranks.rank] if ranks.rank < len(parts) else tensor.narrow(dimension, 0, 0)


def cut_parameter(parameter: nn.Parameter, dimension: int | None, ranks: TensorRanks) -> nn.Parameter:
    """The parameter as a DTensor over tensor ranks, cut along ``dimension`` or held whole by each. Needs no
    communication: every rank has all of it, or none has memory for it.
    """
    placement: Placement = Replicate() if dimension is None else Shard(dimension)
    whole = parameter.detach()
    local = whole
    if dimension is not None:
        local = own_part(whole, dimension, ranks).clone(memory_format=torch.contiguous_format)
    part = DTensor.from_local(
        local, ranks.mesh, [placement], run_check=False, shape=whole.shape, stride=whole.stride()
    )
    return nn.Parameter(part, requires_grad=parameter.requires_grad)


def compute_locally(module: nn.Module, views: Mapping[str, View] | None = None, mixin: type | None = None) -> None:
    """Let ``module``'s code read the local part of its DTensor parameters, through ``views`` by name.

    Its class is replaced by a subclass with a property for each; what holds, saves and optimizes parameters still
    finds the DTensors. ``mixin`` stands before the module's own class.
    """
    names = [name for name, parameter in module._parameters.items() if parameter is not None]
    bases = (type(module),) if mixin is None else (mixin, type(module))
    reading = {name: property(_reader(name, (views or {}).get(name))) for name in names}
    module.__class__ = type(type(module).__name__, bases, {**reading, "__module__": type(module).__module__})


def _reader(name: str, view: View | None) -> Callable[[nn.Module], Tensor | None]:
    def read(module: nn.Module) -> Tensor | None:
        parameter = module._parameters[name]
        if isinstance(parameter, DTensor) and parameter.device_mesh.ndim > 1:
            return parameter  # sharded by FSDP: nothing computes with it before it is gathered
        local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        return local if view is None or local is None else view(local)

    return read


def on_input(function: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """A hook that passes the hidden states, a module's first argument or ``hidden_states``, through ``function``."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (function(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": function(kwargs["hidden_states"])}

    return hook


def on_output(function: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """A hook that passes the hidden states, a module's output or its first, through ``function``."""

    def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if isinstance(output, tuple):
            return (function(output[0]), *output[1:])
        return function(output)

    return hook
