"""Targets: the places a run can go. One folder or file each, found by name and imported only when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.runs.folder import RunFolder, read_json
from trainwright.runs.state import JobRef

if TYPE_CHECKING:
    from trainwright.targets.contract import Target

#: name → module and class
REGISTRY: dict[str, str] = {
    "local": "trainwright.targets.local.target:Local",
    "slurm": "trainwright.targets.slurm.target:Slurm",
    "ray": "trainwright.targets.ray.target:RayTarget",
    "job": "trainwright.targets.kubernetes.kinds:JobTarget",
    "jobset": "trainwright.targets.kubernetes.kinds:JobSetTarget",
    "mpijob": "trainwright.targets.kubernetes.kinds:MPIJobTarget",
    "trainjob": "trainwright.targets.kubernetes.kinds:TrainJobTarget",
    "rayjob": "trainwright.targets.kubernetes.kinds:RayJobTarget",
    "volcano": "trainwright.targets.kubernetes.kinds:VolcanoTarget",
    "pytorchjob": "trainwright.targets.kubernetes.kinds:PyTorchJobTarget",
}

#: scheme of a JobRef → name of the target that answers for it
SCHEMES: dict[str, str] = {
    "local": "local",
    "slurm": "slurm",
    "k8s": "jobset",
    "ray": "ray",
}


def get(name: str) -> Target:
    """The target of that name. An unknown one is an InputError that names the nearest."""
    where = REGISTRY.get(name)
    if where is None:
        problem = Problem(
            "", field="target", what=f"there is no target {name!r}", instead=did_you_mean(name, REGISTRY)
        )
        raise InputError([problem])
    module, _, attribute = where.partition(":")
    target: Target = getattr(importlib.import_module(module), attribute)()
    return target


def for_scheme(scheme: str) -> Target:
    """The target that answers for references such as ``local://…``."""
    if scheme not in SCHEMES:
        what = f"no target answers for {scheme}://"
        raise InputError([Problem("", field="job reference", what=what, instead=did_you_mean(scheme, SCHEMES))])
    return get(SCHEMES[scheme])


def of_run(folder: RunFolder) -> tuple[Target, JobRef]:
    """The target a run was sent to and its reference there, read from the run's folder."""
    for path in (folder.job_file, folder.bundle / "bundle.json"):
        name = (read_json(path) or {}).get("target")
        if isinstance(name, str) and name in REGISTRY:
            break
    else:
        name = folder.spec().target.name
    target = get(name)
    return target, target.ref(folder)
