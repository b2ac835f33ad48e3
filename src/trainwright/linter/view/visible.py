"""How many accelerators a launch can use: what it holds, in processes that each can have one of their own.

Takes a JobLaunch; joins its resources with the machines it may land on, because a Neuron device serves several
processes and the number depends on the generation.
"""

from __future__ import annotations

from trainwright.facts.node_types import NodeType
from trainwright.linter.project import Project
from trainwright.linter.values import Known, Unknown, Value
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.machines import types

#: NeuronCores of one device of any generation: above that nothing helps.
MOST_CORES_PER_DEVICE = 8
_DEVICES = ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice")


def node_types_of(launch: JobLaunch, project: Project) -> list[NodeType]:
    """Machines the launch's pods may land on; [] for scripts and where nothing says so."""
    if launch.group is None:
        return []
    group = launch.group
    if launch.job.spreads(group) and launch.job.workers:
        group = launch.job.workers[0]
    return [known for _, known in types(launch.job, group, project)]


def units(launch: JobLaunch, project: Project) -> Value[int]:
    """Processes that find an accelerator of their own on each node: GPUs, or logical NeuronCores."""
    held = launch.accelerators_per_node
    if not isinstance(held, Known) or launch.job.accelerator not in _DEVICES:
        return held
    each = {kind.logical_cores_per_device for kind in node_types_of(launch, project)}
    only = each.pop() if len(each) == 1 else None
    return Known(held.value * only, held.span) if only else Unknown(held.span)


def at_most(launch: JobLaunch, project: Project) -> int | None:
    """More processes than this certainly find no accelerator."""
    held = launch.accelerators_per_node.known
    if not held or launch.job.accelerator not in _DEVICES:
        return held
    found = [kind.cores // kind.count for kind in node_types_of(launch, project) if kind.cores]
    return held * (max(found) if found else MOST_CORES_PER_DEVICE)


def visible_devices(text: str) -> int | None:
    """Devices in ``CUDA_VISIBLE_DEVICES``: CUDA stops at the first entry that names none. None when it names all."""
    cleaned = text.strip().strip("\"'")
    if cleaned.lower() in ("all",):
        return None
    count = 0
    for part in cleaned.split(","):
        entry = part.strip()
        if not entry or entry == "-1" or entry.lower() in ("nodevfiles", "none", "void"):
            break
        count += 1
    return count
