"""Which generations of GPUs a launch may run on, as far as its instance types, labels or Slurm options say.

Takes a launch and the project; gives rows of ``facts/gpu_generations.json`` with the place that names them. What is
not in the facts gives nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.machines import machine_names

_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name",
           "k8s.amazonaws.com/accelerator")  # fmt: skip
_FAMILY = "karpenter.k8s.aws/instance-family"


@dataclass(frozen=True)
class Generation:
    """One GPU: its usual name, CUDA compute capability, and what it can compute in."""

    name: str
    capability: str
    bf16: bool
    fp8: bool
    flash2: bool


@cache
def _index(column: str) -> dict[str, Generation]:
    found: dict[str, Generation] = {}
    for name, row in read_rows("gpu_generations").items():
        made = Generation(name, row["capability"], row["bf16"], row["fp8"], row["flash2"])
        found.update(dict.fromkeys(row[column], made))
    return found


def generations(launch: JobLaunch, project: Project) -> list[tuple[Known[str], Generation]]:
    """Every GPU the launch may run on, with the place that names it; [] when one of them is not known."""
    named = list(_named(launch, project))
    known = [(place, found) for place, found in named if found is not None]
    return known if len(known) == len(named) else []


def _named(launch: JobLaunch, project: Project) -> Iterator[tuple[Known[str], Generation | None]]:
    families, names = _index("families"), _index("names")
    if launch.group is not None:
        group = launch.group
        if launch.job.spreads(group):
            group = next((worker for worker in launch.job.workers if worker.accelerated), group)
        machines = machine_names(launch.job, group, project)
        for name in machines:
            yield name, families.get(name.value.partition(".")[0].lower())
        if machines:
            return
        for label in _LABELS:
            for value in group.selected(label):
                yield value, names.get(value.value.lower())
        for value in group.selected(_FAMILY):
            yield value, families.get(value.value.lower())
        return
    if launch.job.slurm is None:
        return
    flags = launch.job.slurm.flags
    for option in ("gres", "gpus", "gpus_per_node", "gpus_per_task", "constraint"):
        stated = flags.text(option)
        if not isinstance(stated, Known):
            continue
        parts = [part.split("(")[0].lower() for part in stated.value.replace(",", ":").split(":")]
        words = [part for part in parts if part in names]
        for word in words if option != "constraint" or len(parts) == 1 else ():
            yield stated, names[word]
