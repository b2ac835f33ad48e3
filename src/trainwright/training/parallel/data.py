"""Data parallelism: DDP, ZeRO 1–3 and HSDP over the mesh's dp_replicate and dp_shard.

Takes the module whose forward is the loss and its blocks; gives it wrapped, with what its reduction divides by and
how a micro-batch before the last one avoids communication. ``zero`` over dp_shard means:

0  nothing is sharded: DDP over dp_replicate · dp_shard.
1  FSDP2; parameters stay gathered and gradients whole until the step's last micro-batch: one reduce-scatter and one
   all-gather a step.
2  as 1, but gradients are reduce-scattered after each micro-batch, so only shards of them are kept.
3  as 2, and parameters are gathered again for each pass (resharded after forward).

With dp_replicate > 1 the shards' gradients are all-reduced over replicas (HSDP), once a step in every case.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout
from trainwright.training.batches import DeviceBatch
from trainwright.training.mesh import DataRanks, joined
from trainwright.training.precision import Precision
from trainwright.training.routing import Balance

#: ``compute(module, seed, *arguments)`` calls a module in the run's number format; ``seed`` is that of dropout.
Compute = Callable[..., Any]
#: Bytes of gradients that ``Summed`` sends at a time.
BUCKET_BYTES = 64 * 2**20


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch of a step with the weights of one target's and one row's loss, and the seed of its dropout."""

    batch: DeviceBatch
    weight: float
    row_weight: float
    seed: int


@dataclass(frozen=True)
class Apart:
    """A module inside a block that is sharded by itself: over other ranks (experts), or in its own type (routers)."""

    module: nn.Module
    mesh: DeviceMesh | None = None
    """The ranks that hold the same parameters; None: those of everything else."""
    cast: bool = True
    """False keeps it in the type of trained weights."""
    place: Callable[[nn.Parameter], Shard | None] | None = None
    """Along which dimension FSDP cuts a parameter; None: the first."""


class DataParallel:
    """A module on all data ranks. ``module`` is called as before; ``micro_batch`` surrounds its forward and backward.

    ``loss_factor`` undoes what the gradient reduction divides by: gradients must be sums, because the loss is already
    divided by the tokens of the global batch.
    """

    #: False where the wrapper itself casts parameters, so that autocast would only get in its way.
    autocast: bool = True
    #: Ranks that hold other parts of the model (stages of a pipeline), over which the gradient's norm is summed too.
    model_group: dist.ProcessGroup | None = None
    #: What a mixture of experts does after each step and tells of it.
    balance: Balance | None = None

    def __init__(self, module: nn.Module, loss_factor: float = 1.0):
        self.module = module
        self.loss_factor = loss_factor
        #: What other cuts have left to do once gradients are complete on the data ranks; each is collective.
        self.finishers: list[Callable[[], None]] = []

    def gradients(self, work: Sequence[MicroBatch], compute: Compute) -> tuple[Tensor, ...]:
        """Backward of every micro-batch of a step; the sum of each one's loss."""
        losses = []
        for number, one in enumerate(work):
            with self.micro_batch(is_last(number, len(work))):
                loss, total = compute(self.module, one.seed, one.batch, one.weight, one.row_weight)
                loss.backward()
            losses.append(total)
        self.complete()
        return tuple(losses)

    def loss(self, batch: DeviceBatch, compute: Compute) -> Tensor:
        """Sum of the loss over the targets of a micro-batch, for evaluation."""
        total: Tensor = compute(self.module, None, batch, 0.0)[1]
        return total

    def complete(self) -> None:
        """Finish what the last micro-batch's backward has left to do: after this, gradients are those of the step."""
        for finish in self.finishers:
            finish()

    def copies(self) -> list[nn.Parameter]:
        """Parameters whose gradient another rank of ``model_group`` has too and counts."""
        return []

    def micro_batch(self, last: bool) -> contextlib.AbstractContextManager[None]:
        """Context of one micro-batch; ``last`` is true for the step's last one, when gradients must be complete."""
        return contextlib.nullcontext()

    def rest(self) -> None:
        """Let go of what a forward pass without backward (evaluation) has left gathered."""


def is_last(number: int, count: int) -> bool:
    """True for the micro-batch after which gradients must be complete on every rank."""
    return number == count - 1


class Replicated(DataParallel):
    """DDP."""

    def __init__(self, module: nn.Module, data: DataRanks, device: torch.device):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)  # newer torch renames broadcast_buffers
            wrapped = DistributedDataParallel(
                module,
                process_group=data.group,
                device_ids=None if device.type == "cpu" else [device],
                broadcast_buffers=False,  # they are constants: rotary frequencies, masks
                gradient_as_bucket_view=True,
            )
        super().__init__(wrapped, float(data.members))

    @contextlib.contextmanager
    def micro_batch(self, last: bool) -> Iterator[None]:
        """Without ``last``, gradients are only added up locally."""
        with contextlib.nullcontext() if last else self.module.no_sync():
            yield


class Summed(DataParallel):
    """Replicas whose gradients are summed once a step, when all backward passes are over.

    For a pipeline's stages: DDP expects a backward after each forward, and one that reaches every weight at once. For
    experts, which fewer ranks hold than the rest: DDP knows one group only. For what is cut over tensor ranks: DDP
    knows no DTensor.
    """

    def __init__(self, module: nn.Module, data: DataRanks, apart: Sequence[Apart] = ()):
        super().__init__(module)
        self._group = data.group
        self._apart = [one for one in apart if one.mesh is not None]

    def complete(self) -> None:
        """Sum over the ranks that hold the same parameters."""
        elsewhere: set[int] = set()
        for one in self._apart:
            assert one.mesh is not None
            held = [p for p in one.module.parameters() if p.grad is not None]
            elsewhere.update(map(id, held))
            for dim in range(one.mesh.ndim):
                self._sum([p.grad.to_local() for p in held], one.mesh.get_group(dim))
        here = [p.grad for p in self.module.parameters() if p.grad is not None and id(p) not in elsewhere]
        self._sum([g.to_local() if isinstance(g, DTensor) else g for g in here], self._group)
        super().complete()

    def _sum(self, gradients: Sequence[Tensor], group: dist.ProcessGroup | None) -> None:
        """All-reduce in buckets of one type, all under way before the first is waited for."""
        under_way = []
        for bucket in _buckets(gradients):
            flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
            under_way.append((bucket, flat, dist.all_reduce(flat, group=group, async_op=True)))
        for bucket, flat, work in under_way:
            work.wait()
            parts = flat.split([gradient.numel() for gradient in bucket])
            torch._foreach_copy_(bucket, [p.view_as(g) for p, g in zip(parts, bucket, strict=True)])


def _buckets(gradients: Sequence[Tensor]) -> list[list[Tensor]]:
    buckets: list[list[Tensor]] = []
    room: dict[torch.dtype, int] = {}
    latest: dict[torch.dtype, list[Tensor]] = {}
    for gradient in gradients:
        kind, size = gradient.dtype, gradient.numel() * gradient.element_size()
        if room.get(kind, 0) < size:
            latest[kind], room[kind] = [], BUCKET_BYTES
            buckets.append(latest[kind])
        latest[kind].append(gradient)
        room[kind] -= size
    return buckets


class Sharded(DataParallel):
    """FSDP2: one unit for each block; the root holds embedding, final norm and head."""

    autocast = False

    def __init__(
        self,
        module: nn.Module,
        blocks: Sequence[nn.Module],
        mesh: DeviceMesh,
        zero: int,
        precision: Precision,
        apart: Sequence[Apart] = (),
        offload: OffloadPolicy | None = None,
    ):
        kept = offload or OffloadPolicy()
        policy = MixedPrecisionPolicy(
            param_dtype=precision.compute if precision.is_mixed else None,
            reduce_dtype=precision.master if precision.is_mixed else None,
            cast_forward_inputs=False,
        )
        as_kept = MixedPrecisionPolicy(cast_forward_inputs=False)
        reshard = zero >= 3
        for one in apart:
            fully_shard(
                one.module, mesh=one.mesh or mesh, mp_policy=policy if one.cast else as_kept,
                reshard_after_forward=reshard, shard_placement_fn=one.place, offload_policy=kept,
            )  # fmt: skip
        for block in blocks:
            fully_shard(
                block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard, offload_policy=kept
            )  # fmt: skip
        # The root is used first and last: resharding it after forward would gather it again at once.
        fully_shard(
            module, mesh=mesh, mp_policy=policy, reshard_after_forward=False, offload_policy=kept,
            shard_placement_fn=lambda parameter: _along(parameter, mesh.size(-1)),
        )  # fmt: skip
        super().__init__(module)
        self._units = [unit for unit in module.modules() if isinstance(unit, FSDPModule)]
        self._zero, self._replicas = zero, mesh.size(0) if mesh.ndim == 2 else 1
        self._last = True
        for unit in self._units:
            # Sums, not means; this also avoids gloo's AVG, which some torch versions computed as a sum.
            unit.set_force_sum_reduction_for_comms(True)
            unit.set_gradient_divide_factor(1.0)

    @contextlib.contextmanager
    def micro_batch(self, last: bool) -> Iterator[None]:
        """Says which communication this micro-batch's backward does; flags change only when they must."""
        if last != self._last:
            self._last = last
            for unit in self._units:
                self._set(unit, last)
        yield

    def rest(self) -> None:
        """Shard every parameter again."""
        for unit in self._units:
            unit.reshard()

    def _set(self, unit: FSDPModule, last: bool) -> None:
        unit.set_is_last_backward(last)
        if self._zero == 1:
            unit.set_requires_gradient_sync(last, recurse=False)
        elif self._replicas > 1:
            unit.set_requires_all_reduce(last, recurse=False)
        if self._zero < 3:
            unit.set_reshard_after_backward(last, recurse=False)


def _along(parameter: nn.Parameter, ranks: int) -> Shard | None:
    """Where FSDP cuts a table whose rows tensor ranks hold unequally many of: along the other dimension.

    DTensor does not describe such rows when they are cut once more, and a checkpoint would mix them up.
    """
    if not isinstance(parameter, DTensor):
        return None
    uneven = any(
        placement.is_shard(0) and parameter.shape[0] % parameter.device_mesh.size(dim)
        for dim, placement in enumerate(parameter.placements)
    )
    if not uneven:
        return None
    if parameter.shape[1] % ranks:
        raise AnswerNo(
            f"{parameter.shape[0]} tokens over {parameter.device_mesh.size()} tensor ranks and vectors of "
            f"{parameter.shape[1]} over {ranks} shards: neither divides",
            "set parallelism.zero: 0, or dp_shard to a divisor of the model's width",
        )
    return Shard(1)


def shards(layout: Layout) -> bool:
    """True where parameters are sharded over data ranks."""
    return layout.zero > 0 and layout.dp_shard * layout.cp > 1


def apply(
    module: nn.Module,
    blocks: Sequence[nn.Module],
    mesh: DeviceMesh,
    data: DataRanks,
    layout: Layout,
    precision: Precision,
    device: torch.device,
    apart: Sequence[Apart] = (),
    offload: bool = False,
) -> DataParallel:
    """Wrap ``module`` as the layout says. One process alone needs no wrapping.

    With ``offload`` shards, their gradients and the optimizer's state live in host memory, where the update runs; a
    unit's shards travel to the device before they are gathered. Pinned, so that copies do not stop the device.
    """
    inside = {id(inner) for inner in module.modules()} if apart else set()
    apart = [one for one in apart if id(one.module) in inside]
    if data.group is None:
        return DataParallel(module)
    if not shards(layout):
        summed = layout.pp > 1 or layout.ep > 1 or layout.tp > 1
        return Summed(module, data, apart) if summed else Replicated(module, data, device)
    over = joined(mesh, "dp_shard", "cp")
    if layout.dp_replicate > 1:
        over = DeviceMesh._concatenate([mesh["dp_replicate"], over])
    policy = CPUOffloadPolicy(pin_memory=device.type != "cpu") if offload else None
    return Sharded(module, blocks, over, layout.zero, precision, apart, policy)
