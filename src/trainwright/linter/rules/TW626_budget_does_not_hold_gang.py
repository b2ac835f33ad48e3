"""TW626: a disruption budget that lets one rank go."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods

# Their CRDs have a scale subresource (the workers), so every form of budget is computed.
_SCALED = ("PyTorchJob", "JAXJob", "PaddleJob")


class BudgetDoesNotHoldGang(PodRule):
    """A gang without one pod is a stopped gang."""

    id = "TW626"
    severity = "warning"
    category = "scheduling"
    summary = "a PodDisruptionBudget on training pods allows the eviction of a rank, or cannot be computed"
    evidence = "verified"
    source = (
        "k8s.io/kubernetes@v1.36.3 pkg/controller/disruption/disruption.go, getExpectedPodCount, getScaleController, "
        "failSafe; scale subresources: CRDs of github.com/kubeflow/training-operator@v1.9.3"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Budgets whose labels select these pods."""
        group, job = subject.group, subject.job
        count = group.count.known
        if job.object is None or not group.accelerated or not job.ends or count is None:
            return
        for budget in project.related(job.document, "PodDisruptionBudget"):
            wanted = budget.get("spec", "selector", "matchLabels").pairs()
            if not wanted or any(group.label(key.raw).string != value.string for key, value in wanted):
                continue
            least, most = budget.get("spec", "minAvailable"), budget.get("spec", "maxUnavailable")
            where = most if most.exists else least
            if job.frontend in _SCALED:
                if (most.integer or 0) > 0:
                    yield self.hit(
                        most,
                        f"{most.integer} of {count} pods may be evicted at a time, and one is enough to stop the "
                        "whole collective",
                        "maxUnavailable: 0",
                    )
                    continue
                if most.exists or least.raw.endswith("%"):
                    continue
            if most.integer == 0:
                continue  # What a budget that cannot be computed comes to: no eviction.
            if most.exists or least.raw.endswith("%"):
                yield self.hit(
                    where,
                    f"a {job.object.kind} has no scale, so the budget cannot be computed from "
                    f"{where.key.raw if where.key else 'this'}: "
                    "whatever it says, no pod may be evicted at all (SyncFailed)",
                    f"minAvailable: {count}, an integer",
                )
            elif least.integer is not None and 0 < least.integer < count:
                yield self.hit(
                    least,
                    f"of {count} pods {count - least.integer} may be evicted at a time, and one is enough to "
                    "stop the "
                    "whole collective",
                    f"minAvailable: {count}",
                )
