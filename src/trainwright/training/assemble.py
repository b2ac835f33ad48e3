"""What a rank trains with, put together from spec and layout: the stepper of either engine, and its metrics.

Takes built values; gives what the trainer runs. It must not know the order in which a run goes.
"""

from __future__ import annotations

from torch.distributed.device_mesh import DeviceMesh

from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan
from trainwright.runs.folder import RunFolder
from trainwright.spec.model import RunSpec
from trainwright.training.devices import Device
from trainwright.training.mesh import DataRanks
from trainwright.training.metrics import Metrics
from trainwright.training.model import Built
from trainwright.training.optim import build_optimizer
from trainwright.training.parallel import parallelise
from trainwright.training.precision import LossScale, Precision
from trainwright.training.step import Stepper
from trainwright.training.tracking import open_sinks


def build_stepper(
    built: Built,
    spec: RunSpec,
    layout: Layout,
    mesh: DeviceMesh,
    data: DataRanks,
    precision: Precision,
    device: Device,
) -> Stepper:
    """What computes the steps: the model cut as the layout says, or in the hands of DeepSpeed. Collective."""
    if spec.engine == "deepspeed":
        from trainwright.training import deepspeed

        return deepspeed.build_stepper(built, spec, layout, mesh, data, precision, device)
    offloads = spec.offload.optimizer == "cpu"
    parallel = parallelise(
        built,
        layout,
        mesh,
        data,
        precision,
        device,
        attention=spec.attention,
        compiled=spec.compile,
        experts=spec.experts,
        sentence_pairs=spec.objective == "masked" and spec.masked.sentence_pairs,
        offload=offloads,
    )
    return Stepper(
        parallel,
        build_optimizer(built.network, spec.optimizer, device.type),
        device,
        precision,
        LossScale(enabled=precision.name == "fp16"),
        spec.clip,
        spec.seed,
        data.stream,
        # An update in host memory runs on the host, which can as well look before.
        check_each_step=spec.nan == "skip" or offloads,
    )


def open_metrics(run: RunFolder, spec: RunSpec, plan: Plan, steps: int, device: Device) -> Metrics:
    """Metrics of this rank. MFU is known where the plan knows it: the same FLOPs at another rate."""
    first = device.rank == 0
    share = plan.mfu / plan.tokens_per_s if plan.mfu and plan.tokens_per_s else None
    share = share and share * plan.layout.world_size / device.world_size
    return Metrics(run.metrics if first else None, steps, share, open_sinks(spec, run) if first else ())
