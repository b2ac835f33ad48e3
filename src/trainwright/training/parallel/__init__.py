"""Parallelism, one file for each dimension, applied in one fixed order.

Takes a built model, the mesh and the layout; gives what the trainer's step calls. The model knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout
from trainwright.spec.model import Experts, Offload, RunSpec
from trainwright.training.attention import choose_kernel
from trainwright.training.devices import Device
from trainwright.training.mesh import DataRanks
from trainwright.training.model import Built, recompute_blocks
from trainwright.training.objective import Objective
from trainwright.training.parallel import context, expert, pipeline, tensor
from trainwright.training.parallel import data as data_parallel
from trainwright.training.parallel.weights import Weights
from trainwright.training.precision import Precision


def refuse_unsupported(spec: RunSpec, layout: Layout) -> None:
    """Raise AnswerNo for what no file here does. What a model or a layout forbids is said where it is cut, and what
    DeepSpeed cannot do by its own file.
    """
    if spec.engine != "native" or spec.offload == Offload():
        return
    found = [
        (f"parallelism.{name} is {getattr(layout, name)}, which is not proved beside it", f"{name}: 1")
        for name in ("pp", "tp", "ep")
        if getattr(layout, name) > 1
    ]
    if not data_parallel.shards(layout):
        found.append((f"no state is sharded (dp_shard {layout.dp_shard}, zero {layout.zero})", "dp_shard: 2 or more"))
    if spec.offload.optimizer == "none":
        found.append(("parameters are updated where they are kept", "offload.optimizer: cpu"))
    if spec.offload.parameters != "none" and layout.zero < 3:
        found.append((f"zero {layout.zero} keeps parameters gathered between forward and backward", "zero: 3"))
    if spec.optimizer.name == "adamw8bit":
        found.append(("optimizer: adamw8bit runs on the GPU alone", "optimizer: adamw"))
    if found:
        raise AnswerNo(
            f"offload cannot be done here: {'; '.join(what for what, _ in found)}",
            f"set {', '.join(way for _, way in found)}; or engine: deepspeed",
        )


def reads_once(layout: Layout) -> bool:
    """True where no rank keeps all parameters: only rank 0 needs to build the model with its weights then, and
    ``parallelise`` gives the others their parts.
    """
    return data_parallel.shards(layout) or layout.tp > 1


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
    experts: Experts | None = None,
    sentence_pairs: bool = False,
    offload: bool = False,
) -> data_parallel.DataParallel:
    """The model cut as the layout says. Collective; the order is fixed, each cut sees what the ones before left:

    pipeline → tensor → expert → context → recompute → compile → data. A compiled block holds its recomputation, and a
    shard's gathering holds both. ``attention`` is the spec's; ``compiled`` compiles blocks; ``offload`` keeps what is
    sharded, and its updates, in host memory.
    """
    sparse_wanted = expert.wanted(built.network, layout, experts or Experts())
    whole = Weights(built.network) if reads_once(layout) else None
    cut = pipeline.cut(built, layout, mesh, compiled) if layout.pp > 1 else None
    runs = [built.blocks] if cut is None else [cut.blocks(part) for part in cut.mine]
    over_tensor = tensor.apply(built.network, runs, layout, mesh) if layout.tp > 1 else None
    sparse = expert.apply(built.network, sparse_wanted, layout, mesh) if sparse_wanted else None
    kernel = choose_kernel(attention, device.type, precision.compute)
    over_context = context.apply(layout, mesh, kernel, sentence_pairs) if layout.cp > 1 else None
    if layout.recompute == "full":
        recompute_blocks(built.blocks)
    if compiled:
        for block in built.blocks:
            block.compile()
    if whole is None or (device.rank == 0 and not data_parallel.shards(layout)):
        built.network.to(device.torch)
    selective = layout.recompute == "selective"

    def on_data_ranks(module: Objective, blocks: Sequence[nn.Module]) -> data_parallel.DataParallel:
        module.routed = sparse is not None
        module.context = over_context
        module.vocabulary = over_tensor.vocabulary if over_tensor else None
        apart = expert.apart(sparse, precision) if sparse else []
        found = data_parallel.apply(
            module.train(), blocks, mesh, data, layout, precision, device.torch, apart, offload
        )
        if over_tensor is not None:
            places = over_tensor.partial(module)
            found.finishers.append(lambda: over_tensor.complete(places))
        return found

    if cut is None:
        parallel = on_data_ranks(Objective(built.network, kernel, selective), built.blocks)
    else:
        stages = [on_data_ranks(*cut.stage(part, kernel, selective)) for part in cut.mine]
        parallel = pipeline.Pipelined(cut, stages, layout, precision, device.torch)
    if whole is not None:
        whole.share_out(device.torch, torch.device("cpu") if offload else device.torch)
    parallel.balance = sparse.balance if sparse else None
    return parallel
