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


@dataclass(frozen=True)
class DataRanks:
    """The ranks that read different samples, as one rank sees them.

    ``counts`` is true on one rank of those that read the same samples, so that sums over all ranks count each once.
    """

    rank: int
    size: int
    counts: bool
    group: dist.ProcessGroup | None


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
    data = mesh["dp_replicate", "dp_shard"]
    same = all(mesh.get_local_rank(name) == 0 for name in ("pp", "cp", "tp"))
    size = data.size()
    group = data._flatten("data").get_group() if size > 1 else None
    return DataRanks(replicate * mesh.size(MESH_DIMENSIONS.index("dp_shard")) + shard, size, same, group)
