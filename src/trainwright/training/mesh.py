"""The device mesh: every rank's place in every dimension of the layout.

Takes a Layout and gives one DeviceMesh with all of ``MESH_DIMENSIONS``, whatever their size, and this rank's view of
the ranks that read different samples. Later dimensions add files in ``parallel/``, not changes here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from trainwright.errors import AnswerNo
from trainwright.models.layout import MESH_DIMENSIONS, Layout
from trainwright.models.refit import refit
from trainwright.planner.plan import Plan
from trainwright.spec.model import RunSpec
from trainwright.training.zigzag import ALONE, ZigZag


@dataclass(frozen=True)
class DataRanks:
    """The ranks that read different samples, as one rank sees them.

    ``counts`` is true on one rank of those that read the same samples, so that sums over all ranks count each once:
    on a pipeline's last stage, which has the loss.
    """

    rank: int
    size: int
    counts: bool
    group: dist.ProcessGroup | None
    """All of them, with the ranks that have other positions of their samples: gradients are summed over it."""
    context: ZigZag = ALONE
    """This rank's place among those that have other positions of the same samples."""
    adds: bool = True
    """True on one rank of those that compute the same tokens' loss, so that sums over all ranks add each once."""

    @property
    def members(self) -> int:
        """Ranks of ``group``."""
        return self.size * self.context.size

    @property
    def stream(self) -> int:
        """A number that differs between ranks that compute different tokens: dropout's."""
        return self.rank * self.context.size + self.context.rank


def layout_of(spec: RunSpec, plan: Plan, world: int) -> Layout:
    """The plan's layout, fitted to as many ranks as were started. Raises AnswerNo where that cannot be."""
    planned, batch = plan.layout, spec.global_batch_size
    if planned.global_batch_size != batch:
        raise AnswerNo(
            f"the plan's batch is {planned.global_batch_size} sequences ({planned}) but the spec's is {batch}",
            "plan again",
        )
    layout = refit(planned, world, batch)
    if spec.engine == "deepspeed" and layout.global_batch_size != batch:
        raise AnswerNo(
            f"{world} ranks cannot share {batch} sequences in whole micro-batches of {layout.micro_batch_size}, as "
            "engine: deepspeed needs",
            f"start a number of ranks that divides {batch // layout.micro_batch_size}",
        )
    return layout


def build_mesh(layout: Layout, device_type: str) -> DeviceMesh:
    """One mesh over all processes. Raises AnswerNo when their number is not the layout's."""
    world = dist.get_world_size()
    if world != layout.world_size:
        raise AnswerNo(
            f"the layout ({layout}) needs {layout.world_size} processes but {world} were started",
            "plan again for this number of processes, or start as many as the plan says",
        )
    return init_device_mesh(device_type, layout.mesh_shape, mesh_dim_names=MESH_DIMENSIONS)


def data_ranks(mesh: DeviceMesh) -> DataRanks:
    """This rank's place among the data ranks: dp_replicate is the outer, dp_shard the inner index."""
    replicate, shard = mesh.get_local_rank("dp_replicate"), mesh.get_local_rank("dp_shard")
    sizes = dict(zip(MESH_DIMENSIONS, mesh.shape, strict=True))
    context = ZigZag(mesh.get_local_rank("cp"), sizes["cp"])
    adds = mesh.get_local_rank("tp") == 0 and mesh.get_local_rank("pp") == sizes["pp"] - 1
    everyone = joined(mesh, "dp_replicate", "dp_shard", "cp")
    return DataRanks(
        replicate * sizes["dp_shard"] + shard,
        sizes["dp_replicate"] * sizes["dp_shard"],
        adds and context.rank == 0,
        everyone.get_group() if everyone.size() > 1 else None,
        context,
        adds,
    )


def joined(mesh: DeviceMesh, *names: str) -> DeviceMesh:
    """Neighbouring dimensions as one. Those of one rank are left out, so no process group is made twice."""
    real = [name for name in names if mesh[name].size() > 1] or [names[-1]]
    return mesh[real[0]] if len(real) == 1 else mesh[tuple(real)]._flatten("_".join(real))
