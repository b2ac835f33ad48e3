"""TW206: fewer processes than accelerators: the rest idles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Absent, Known
from trainwright.linter.view.cost import an_hour_of
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.visible import units

_TRAINS = re.compile(r"(?:^|[/_-])(?:train|pretrain|finetune|fine_tune|sft|main_train|run_(?:clm|mlm|glue))\w*\.py$")
_SPREADS = re.compile(
    r"devices|gpu|nproc|spawn|parallel|strategy|accelerator|device_map|world|config|cfg|lightning|jax|ray"
)
_STARTS_MORE = re.compile(
    r"spawn|DataParallel|device_map|lightning|notebook_launcher|MirroredStrategy|deepspeed|import jax|Process\("
    r"|subprocess"
)


class AcceleratorsLeftIdle(LaunchRule):
    """Each accelerator needs a process of its own."""

    id = "TW206"
    severity = "warning"
    category = "accelerators"
    summary = "fewer processes than accelerators: the rest idles"
    evidence = "reported"
    source = "one process uses one device; huggingface/optimum-neuron#761, opendatahub-io/distributed-workloads#751"

    def _plain(self, launch: JobLaunch) -> Iterator[Hit]:
        """One srun task per node, several GPUs and no launcher: the program may start the rest itself."""
        held, nodes = launch.accelerators_per_node.known, launch.nodes.known
        devices = launch.arguments.has(
            "trainer.devices",
            "devices",
            "num_gpus",
            "gpus",
            "tensor_parallel_size",
            "nprocs",
            "multiprocessing_distributed",
        )
        if (
            launch.srun is None
            or launch.job.slurm is None
            or launch.copies_per_node.known != 1
            or not nodes
            or nodes < 2
            or not held
            or held < 2
            or devices
        ):
            return
        yield self.hit(
            launch,
            f"srun starts one process on each node, and each node has {held} GPUs: unless the program "
            f"starts more itself, {held - 1} of them idle",
            f"#SBATCH --ntasks-per-node={held}, or torchrun --nproc_per_node={held}",
        )

    def _alone(self, launch: JobLaunch, project: Project) -> Iterator[Hit]:
        """``python train.py`` in one place with several accelerators, and nothing that spreads it over them."""
        held = launch.accelerators_per_node.known
        name = launch.launch.script
        if not held or held < 2 or launch.is_neuron or not launch.job.ends or launch.job.frontend.startswith("Ray"):
            return
        if not _TRAINS.search(name) or _SPREADS.search(" ".join((name, *launch.arguments.used))):
            return
        if (
            launch.arguments.open
            or launch.launch.context & {"background", "loop"}
            or launch.copies_per_node.known != 1
        ):
            return
        module = project.file(name, launch.job.document)
        if module is not None and _STARTS_MORE.search(module.text.content):
            return
        yield self.hit(
            launch,
            f"one process is started where {held} accelerators are held: unless {name} spreads itself over them, "
            f"{held - 1} of them idle{an_hour_of(held - 1, launch.job, launch.group, project)}",
            f"torchrun --standalone --nproc_per_node={held} {name}, or ask for one accelerator",
        )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Processes per node against usable accelerators."""
        if not subject.tool:
            found = list(self._plain(subject))
            yield from found or self._alone(subject, project)
            return
        if subject.job.frontend in ("RayJob", "RayCluster", "RayService") or subject.launch.context & {
            "background",
            "loop",
        }:
            return
        started, usable = subject.processes_per_node, units(subject, project).known
        if isinstance(started, Absent) and subject.tool == "torchrun" and not subject.flags.open:
            started = Known(1, subject.span)
        if (
            subject.copies_per_node.known not in (None, 1)
            or not isinstance(started, Known)
            or not usable
            or started.value < 1
            or started.value >= usable
        ):
            return
        if subject.tool == "mpirun" and subject.flags.has("npernode", "map_by"):
            return
        unit = "NeuronCores" if subject.is_neuron else "accelerators"
        option = {"torchrun": "--nproc_per_node=", "accelerate": "--num_processes ", "deepspeed": "--num_gpus "}.get(
            subject.tool, "processes per node: "
        )
        total = usable * (subject.nnodes.known or 1) if subject.tool == "accelerate" else usable
        if subject.tool == "accelerate" and subject.nnodes.known is None and not isinstance(subject.nnodes, Absent):
            return
        spare = None if subject.is_neuron else (usable - started.value) * (subject.nodes.known or 1)
        cost = an_hour_of(spare, subject.job, subject.group, project)
        yield self.hit(
            started,
            f"{started.value} process{'es' if started.value > 1 else ''} per node for {usable} {unit}: "
            f"{usable - started.value} of them are held and paid for, and do nothing{cost}",
            f"{option}{total}, or ask for fewer",
        )
