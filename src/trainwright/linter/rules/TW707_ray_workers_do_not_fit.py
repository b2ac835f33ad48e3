"""TW707: workers that can never be placed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.text import Span
from trainwright.linter.values import Absent, Known, Unknown, integer
from trainwright.linter.view.job import JobLaunch, TrainingJob
from trainwright.linter.view.pods import PodGroup
from trainwright.linter.view.python import Call, calls_of, literal


class RayWorkersDoNotFit(JobRule):
    """All workers are placed together or not at all."""

    id = "TW707"
    severity = "error"
    category = "operators"
    summary = "Ray Train asks for more GPUs than the cluster can ever have"
    evidence = "reproduced"
    source = (
        "Ray Train documentation: a trainer waits until its placement group can be placed; reproduced "
        "with Ray 2.60 (infeasible request waits)"
    )
    frontends: ClassVar[tuple[str, ...]] = ("RayJob",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Requests above what the groups add up to."""
        yield from self._entrypoint(subject)
        total = _most(subject)
        if total is None:
            return
        for launch in subject.launches:
            asked = _asked(launch, project)
            if asked is None:
                continue
            place, workers, each = asked
            if workers * each > total:
                yield self.hit(
                    place,
                    f"{workers} workers with {each:g} GPU each need {workers * each:g} GPUs, but the cluster never "
                    f"has more "
                    f"than {total}: Ray Train waits for ever while holding the GPUs there are",
                    f"{int(total / each)} workers, or groups with more replicas (maxReplicas with autoscaling)",
                )

    def _entrypoint(self, job: TrainingJob) -> Iterator[Hit]:
        """The driver itself is placed on one node."""
        asked = job.get("spec", "entrypointNumGpus")
        groups = [_told(job, group) or group.accelerators for group in job.groups if group.role in ("head", "worker")]
        if asked.number is None or not groups or job.get("spec", "rayClusterSpec", "workerGroupSpecs").open:
            return
        counts = [0 if isinstance(value, Absent) else value.known for value in groups]
        largest = max((count for count in counts if count is not None), default=0)
        if None not in counts and asked.number > largest:
            yield self.hit(
                asked,
                f"the entrypoint asks for {asked.raw} GPUs on one node, and no pod of this cluster has more than "
                f"{largest}: the job stays PENDING while the cluster holds its GPUs",
                "no entrypointNumGpus: the driver only starts the workers, which ask for GPUs themselves",
            )


def _told(job: TrainingJob, group: PodGroup) -> Known[int] | Unknown | None:
    """GPUs that ``ray start`` is told of in place of those of the limits; None when it is told nothing."""
    place = job.get("spec", "rayClusterSpec", "headGroupSpec") if group.role == "head" else group.entry
    stated = place.get("rayStartParams", "num-gpus")
    if not stated.exists:
        return None
    number = integer(stated.string or "") if stated.integer is None else stated.integer
    return Unknown(stated.span) if number is None else Known(number, stated.span)


def _most(job: TrainingJob) -> int | None:
    """GPUs of all groups at their largest size; None when that is not certain."""
    spec = job.get("spec", "rayClusterSpec")
    scaled = spec.get("enableInTreeAutoscaling")
    if spec.get("workerGroupSpecs").open or scaled.unknown or not spec.exists:
        return None
    total = 0
    for group in job.groups:
        if group.role not in ("head", "worker"):
            continue
        gpus = _told(job, group) or group.accelerators
        if isinstance(gpus, Absent):
            continue
        count = group.count
        if scaled.boolean and group.role == "worker":
            count = group.entry.get("maxReplicas").as_integer()
        if gpus.known is None or count.known is None or group.entry.get("numOfHosts").exists:
            return None
        total += gpus.known * count.known
    return total


def _asked(launch: JobLaunch, project: Project) -> tuple[Span, int, float] | None:
    """Place, workers and GPUs of each, by the options or by the program's ScalingConfig."""
    workers = launch.arguments.number("num_workers")
    used = launch.arguments.switch("use_gpu")
    if isinstance(workers, Known) and isinstance(used, Known) and used.value:
        each = launch.arguments.number("gpus_per_worker").known or 1
        return workers.span, workers.value, float(each)
    module = project.file(launch.launch.script, launch.job.document)
    if not isinstance(module, PythonDocument):
        return None
    for call in calls_of(module, "ray.train.ScalingConfig", "ray.air.ScalingConfig", "ray.air.config.ScalingConfig"):
        number, gpu = literal(call.argument(1, "num_workers")), literal(call.argument(2, "use_gpu"))
        node = call.argument(1, "num_workers")
        if isinstance(number, int) and gpu is True and node is not None:
            return module.span(node), number, _per_worker(call)
    return None


def _per_worker(call: Call) -> float:
    """GPUs of one worker in ``resources_per_worker``, 1 when it does not say."""
    asked = call.keyword("resources_per_worker")
    for key, value in zip(asked.keys, asked.values, strict=True) if isinstance(asked, ast.Dict) else ():
        count = literal(value)
        if literal(key) == "GPU" and isinstance(count, int | float):
            return float(count)
    return 1.0
