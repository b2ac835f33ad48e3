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
from collections.abc import Iterator, Sequence

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from trainwright.models.layout import Layout
from trainwright.training.mesh import DataRanks
from trainwright.training.precision import Precision


class DataParallel:
    """A module on all data ranks. ``module`` is called as before; ``micro_batch`` surrounds its forward and backward.

    ``loss_factor`` undoes what the gradient reduction divides by: gradients must be sums, because the loss is already
    divided by the tokens of the global batch.
    """

    #: False where the wrapper itself casts parameters, so that autocast would only get in its way.
    autocast = True

    def __init__(self, module: nn.Module, loss_factor: float = 1.0):
        self.module = module
        self.loss_factor = loss_factor

    def micro_batch(self, last: bool) -> contextlib.AbstractContextManager[None]:
        """Context of one micro-batch; ``last`` is true for the step's last one, when gradients must be complete."""
        return contextlib.nullcontext()

    def rest(self) -> None:
        """Let go of what a forward pass without backward (evaluation) has left gathered."""


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
        super().__init__(wrapped, float(data.size))

    @contextlib.contextmanager
    def micro_batch(self, last: bool) -> Iterator[None]:
        """Without ``last``, gradients are only added up locally."""
        with contextlib.nullcontext() if last else self.module.no_sync():
            yield


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
    ):
        policy = MixedPrecisionPolicy(
            param_dtype=precision.compute if precision.is_mixed else None,
            reduce_dtype=precision.master if precision.is_mixed else None,
            cast_forward_inputs=False,
        )
        reshard = zero >= 3
        for block in blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
        # The root is used first and last: resharding it after forward would gather it again at once.
        fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
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


def shards(layout: Layout) -> bool:
    """True where parameters are sharded; only rank 0 needs to build the model with its weights then
    (``weights.Weights`` gives the others their shards).
    """
    return layout.zero > 0 and layout.dp_shard > 1


def apply(
    module: nn.Module,
    blocks: Sequence[nn.Module],
    mesh: DeviceMesh,
    data: DataRanks,
    layout: Layout,
    precision: Precision,
    device: torch.device,
) -> DataParallel:
    """Wrap ``module`` as the layout says. One process alone needs no wrapping."""
    if data.size == 1:
        return DataParallel(module)
    if not shards(layout):
        return Replicated(module, data, device)
    names = ("dp_replicate", "dp_shard") if layout.dp_replicate > 1 else ("dp_shard",)
    return Sharded(module, blocks, mesh[names], layout.zero, precision)
