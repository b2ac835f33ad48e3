"""TW601: the only node pool that fits has a taint that the pods do not tolerate."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.machines import contradicts, untolerated_taint
from trainwright.linter.view.pods import PodGroup


class TaintNotTolerated(PodRule):
    """Every NodePool in sight repels these pods."""

    id = "TW601"
    severity = "error"
    category = "scheduling"
    summary = "no node pool accepts these pods: a taint is not tolerated"
    evidence = "verified"
    source = "Kubernetes taints and tolerations; Karpenter NodePool spec.template.spec.taints"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Accelerated pods against all NodePools that belong with them."""
        group = subject.group
        if not group.accelerated or group.spec.open or subject.job.frontend.endswith("Runtime"):
            return
        # A pool for other machines says nothing: the nodes that the pods select come from elsewhere.
        first = ""
        for pool in project.related(subject.job.document, "NodePool"):
            if contradicts(pool, group):
                continue
            missing = self._repelled(pool, group)
            if not missing:
                return
            first = first or missing
        if not first:
            return
        yield self.hit(
            group.spec.get("tolerations"),
            f"the pods do not tolerate {first}, and every NodePool here that they could use has such a taint: they "
            "stay Pending",
            f"tolerations: [{{key: {first.split('=')[0].split(':')[0]}, operator: Exists, effect: NoSchedule}}]",
        )

    def _repelled(self, pool: KubernetesObject, group: PodGroup) -> str:
        """The first taint of a pool that the pods do not tolerate, as "key=value:effect"; "" when there is none."""
        taints = pool.get("spec", "template", "spec", "taints")
        if taints.open or taints.unknown:
            return ""
        return untolerated_taint(pool, group)
