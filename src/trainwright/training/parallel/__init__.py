"""Parallelism, one file for each dimension, applied in one fixed order.

Takes a built model, the mesh and the layout; gives what the trainer's step calls. The model knows nothing of it.
"""

from __future__ import annotations

from torch.distributed.device_mesh import DeviceMesh

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout
from trainwright.spec.model import RunSpec
from trainwright.training.attention import choose_kernel
from trainwright.training.devices import Device
from trainwright.training.mesh import DataRanks
from trainwright.training.model import Built, recompute_blocks
from trainwright.training.objective import Objective
from trainwright.training.parallel import data as data_parallel
from trainwright.training.parallel.weights import Weights
from trainwright.training.precision import Precision

#: Degrees that no file here applies yet, with what they are called.
_NOT_YET = {
    "pp": "pipeline parallelism",
    "cp": "context parallelism",
    "tp": "tensor parallelism",
    "ep": "expert parallelism",
}


def refuse_unsupported(spec: RunSpec, layout: Layout) -> None:
    """Raise AnswerNo for what asks for more than torch's own data parallelism, naming every degree."""
    if spec.engine != "native":
        raise AnswerNo(f"engine: {spec.engine} is not in this version", "set engine: native; zero 1 to 3 are in it")
    if (spec.offload.optimizer, spec.offload.parameters) != ("none", "none"):
        raise AnswerNo("offload is not in this version", "raise dp_shard, or set recompute: full")
    asked = [
        f"{name}={getattr(layout, name)} ({words})" for name, words in _NOT_YET.items() if getattr(layout, name) > 1
    ]
    if asked:
        raise AnswerNo(
            f"this version has data parallelism only (dp_replicate, dp_shard, zero), not {', '.join(asked)}",
            f"set {', '.join(f'parallelism.{name}: 1' for name in _NOT_YET if getattr(layout, name) > 1)}",
        )


def parallelise(
    built: Built,
    layout: Layout,
    mesh: DeviceMesh,
    data: DataRanks,
    precision: Precision,
    device: Device,
    *,
    attention: str = "auto",
    compiled: bool = False,
) -> data_parallel.DataParallel:
    """The model cut as the layout says. Collective; the order is fixed, each cut sees what the ones before left:

    pipeline → tensor → expert → context → recompute → compile → data. A compiled block holds its recomputation, and a
    shard's gathering holds both. ``attention`` is the spec's; ``compiled`` compiles blocks.
    """
    whole = Weights(built.network) if data_parallel.shards(layout) else None
    kernel = choose_kernel(attention, device.type, precision.compute)
    module = Objective(built.network, kernel, recompute_attention=layout.recompute == "selective")
    if layout.recompute == "full":
        recompute_blocks(built.blocks)
    if compiled:
        for block in built.blocks:
            block.compile()
    if whole is None:
        module.to(device.torch)
    module.train()
    parallel = data_parallel.apply(module, built.blocks, mesh, data, layout, precision, device.torch)
    if whole is not None:
        whole.share_out(device.torch)
    return parallel
