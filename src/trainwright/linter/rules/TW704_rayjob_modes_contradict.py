"""TW704: a RayJob on an existing cluster cannot retry, suspend or own one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.errors import did_you_mean
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_MODES = ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")


class RayjobModesContradict(ObjectRule):
    """``clusterSelector`` and ``submissionMode`` rule other fields out."""

    id = "TW704"
    severity = "error"
    category = "operators"
    summary = "RayJob fields that exclude one another"
    evidence = "verified"
    source = "KubeRay 1.6 controllers/ray/utils/validation.go, ValidateRayJobSpec"
    kinds: ClassVar[tuple[str, ...]] = ("RayJob",)
    groups: ClassVar[tuple[str, ...]] = ("ray.io",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Pairs that the operator refuses."""
        spec = subject.get("spec")
        selector, cluster = spec.get("clusterSelector"), spec.get("rayClusterSpec")
        backoff, mode = spec.get("backoffLimit"), spec.get("submissionMode")
        if not selector.exists and not cluster.exists and not spec.open and spec.exists and not spec.unknown:
            yield self.hit(
                spec,
                "the job names no cluster: the operator refuses it",
                "rayClusterSpec (a cluster of its own) or clusterSelector (an existing one)",
            )
        if selector.exists and (backoff.integer or 0) > 0:
            yield self.hit(
                backoff,
                "backoffLimit starts a new cluster for each attempt, which a job on an existing cluster "
                "(clusterSelector) cannot: the operator refuses the job",
                "no backoffLimit, or rayClusterSpec instead of clusterSelector",
            )
        if selector.exists and spec.get("suspend").boolean:
            yield self.hit(
                spec.get("suspend"),
                "suspending deletes the cluster, which a job on an existing cluster "
                "(clusterSelector) must not: the operator refuses the job",
                "no suspend, or rayClusterSpec instead of clusterSelector",
            )
        if mode.string == "InteractiveMode" and (backoff.integer or 0) > 0:
            yield self.hit(
                backoff, "InteractiveMode cannot be retried: the operator refuses backoffLimit", "no backoffLimit"
            )
        for name in ("activeDeadlineSeconds", "preRunningDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit"):
            number, least = spec.get(name), 1 if "Deadline" in name else 0
            if number.integer is not None and number.integer < least:
                yield self.hit(
                    number, f"{name} is {number.raw}: the operator refuses the job", f"{name} of {least} or more"
                )
        rules = spec.get("deletionStrategy", "deletionRules")
        if rules.elements() and spec.get("shutdownAfterJobFinishes").boolean:
            yield self.hit(
                spec.get("shutdownAfterJobFinishes"),
                "shutdownAfterJobFinishes and deletionStrategy.deletionRules both say when the cluster goes: the "
                "operator refuses the job",
                "one of them",
            )
        if mode.string == "HTTPMode" and spec.get("submitterPodTemplate").exists:
            yield self.hit(
                spec.get("submitterPodTemplate"),
                "in HTTPMode the operator submits the job itself: no pod is made from submitterPodTemplate",
                "no submitterPodTemplate, or submissionMode: K8sJobMode",
                severity="warning",
            )
        if mode.string == "SidecarMode":
            for name in ("submitterPodTemplate", "submitterConfig", "clusterSelector"):
                if spec.get(name).exists:
                    yield self.hit(
                        spec.get(name),
                        f"SidecarMode has no submitter pod: the operator refuses {name}",
                        f"no {name}, or submissionMode: K8sJobMode",
                    )
        if mode.string is not None and mode.string not in _MODES:
            yield self.hit(mode, f"there is no submission mode {mode.string}", did_you_mean(mode.string, _MODES))
        if mode.string in (None, "K8sJobMode", "HTTPMode", "SidecarMode") and spec.exists and not spec.open:
            entrypoint = spec.get("entrypoint")
            if entrypoint.absent and cluster.exists and not mode.unknown and spec.get("submitterPodTemplate").absent:
                yield self.hit(
                    spec,
                    "there is no entrypoint: the cluster is created, and nothing is submitted to it",
                    "entrypoint: python …",
                    severity="warning",
                )
