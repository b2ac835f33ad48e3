"""TW708: minReplicas, replicas and maxReplicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class RayReplicaBounds(JobRule):
    """minReplicas ≤ replicas ≤ maxReplicas."""

    id = "TW708"
    severity = "error"
    category = "operators"
    summary = "a Ray worker group whose replicas contradict its bounds"
    evidence = "verified"
    source = (
        "KubeRay 1.6 controllers/ray/utils/validation.go, ValidateRayClusterSpec; ray-operator apis: "
        "replicas between minReplicas and maxReplicas"
    )
    frontends: ClassVar[tuple[str, ...]] = ("RayJob", "RayCluster")

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Bounds of every worker group."""
        spec = subject.get("spec") if subject.frontend == "RayCluster" else subject.get("spec", "rayClusterSpec")
        for group in subject.groups:
            if group.role != "worker":
                continue
            low, high, count = (group.entry.get(name) for name in ("minReplicas", "maxReplicas", "replicas"))
            if low.integer is not None and high.integer is not None and low.integer > high.integer:
                yield self.hit(
                    low,
                    f"minReplicas {low.integer} is above maxReplicas {high.integer}: the operator refuses "
                    f"the cluster",
                    f"minReplicas of at most {high.integer}",
                )
            elif count.integer is not None and high.integer is not None and count.integer > high.integer:
                yield self.hit(
                    count,
                    f"replicas {count.integer} is above maxReplicas {high.integer}: the operator starts "
                    f"{high.integer} workers",
                    f"maxReplicas: {count.integer}",
                    severity="warning",
                )
            elif count.integer is not None and low.integer is not None and count.integer < low.integer:
                yield self.hit(
                    count,
                    f"replicas {count.integer} is below minReplicas {low.integer}: the operator starts "
                    f"{low.integer} workers",
                    f"replicas: {low.integer}",
                    severity="warning",
                )
            elif (
                count.integer is not None
                and high.integer is not None
                and high.integer > count.integer
                and not spec.get("enableInTreeAutoscaling").exists
                and not spec.open
            ):
                yield self.hit(
                    high,
                    f"maxReplicas {high.integer} does nothing: without enableInTreeAutoscaling the "
                    f"cluster stays at {count.integer} workers",
                    "enableInTreeAutoscaling: true, or maxReplicas equal to replicas",
                    severity="note",
                )
