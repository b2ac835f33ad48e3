"""TW614: two node pools accept the same pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.view.machines import INSTANCE_LABEL
from trainwright.linter.view.nodepools import decided_elsewhere, pool_accelerated, taints
from trainwright.linter.view.storage import ZONE_LABELS


class OverlappingPools(ProjectRule):
    """Karpenter chooses between pools of equal weight at random."""

    id = "TW614"
    severity = "warning"
    category = "scheduling"
    summary = "two node pools of the same weight accept the same pods on different nodes"
    evidence = "reported"
    source = (
        "Karpenter v1.14 documentation, NodePools: mutually exclusive, or one is chosen at random; "
        "aws-samples/amazon-eks-machine-learning-with-terraform-and-kubeflow#118"
    )

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """Pairs of accelerator pools of one set."""
        pools = [pool for pool in project.objects("NodePool", group="karpenter.sh") if pool_accelerated(pool)]
        allowed = {pool: self._allowed(pool) for pool in pools}
        for number, first in enumerate(pools):
            related = set(project.related(first, "NodePool"))
            for second in pools[number + 1 :]:
                if second in related and self._overlap(first, second, allowed, project):
                    yield self.hit(
                        second,
                        self._why(first, second),
                        (
                            "taints or labels that only the pods of one pool tolerate and select, or a "
                            "weight that says "
                            "which comes first"
                        ),
                    )

    def _overlap(
        self,
        first: KubernetesObject,
        second: KubernetesObject,
        allowed: Mapping[KubernetesObject, dict[str, set[str]]],
        project: Project,
    ) -> bool:
        if decided_elsewhere(first) or decided_elsewhere(second) or taints(first) != taints(second):
            return False
        weights = [pool.get("spec", "weight").integer or 0 for pool in (first, second)]
        if weights[0] != weights[1]:
            return False
        mine, theirs = allowed[first], allowed[second]
        shared = mine.get(INSTANCE_LABEL, set()) & theirs.get(INSTANCE_LABEL, set())
        if not shared:
            return False
        for key in set(mine) & set(theirs):
            if key not in ZONE_LABELS and key != INSTANCE_LABEL and not mine[key] & theirs[key]:
                return False
        if self._labels(first) != self._labels(second) and not self._pods_ignore(first, second, project):
            return False
        different = (
            first.get("spec", "template", "spec", "nodeClassRef", "name").raw
            != second.get("spec", "template", "spec", "nodeClassRef", "name").raw
        )
        return different or any(mine.get(key) != theirs.get(key) for key in ZONE_LABELS)

    def _allowed(self, pool: KubernetesObject) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for requirement in pool.get("spec", "template", "spec", "requirements").elements():
            key = requirement.get("key").string
            if key and requirement.get("operator").string == "In":
                found[key] = {value.string or "" for value in requirement.get("values").elements()}
        return found

    def _labels(self, pool: KubernetesObject) -> set[tuple[str, str]]:
        return {(key.raw, value.raw) for key, value in pool.get("spec", "template", "metadata", "labels").pairs()}

    def _pods_ignore(self, first: KubernetesObject, second: KubernetesObject, project: Project) -> bool:
        """Whether jobs are known and some of them select none of the labels in which the pools differ."""
        keys = {key for key, _ in self._labels(first) ^ self._labels(second)}
        groups = [group for job in project.jobs for group in job.groups if group.accelerated]
        return bool(groups) and any(not any(group.selected(key) for key in keys) for group in groups)

    def _why(self, first: KubernetesObject, second: KubernetesObject) -> str:
        zones = [
            ", ".join(sorted(set().union(*(self._allowed(pool).get(key, set()) for key in ZONE_LABELS))))
            for pool in (first, second)
        ]
        classes = [pool.get("spec", "template", "spec", "nodeClassRef", "name").raw for pool in (first, second)]
        apart = (
            f"zones {zones[0]} and {zones[1]}"
            if zones[0] != zones[1]
            else f"node classes {classes[0]} and {classes[1]}"
        )
        return (
            f"NodePools {first.object_name!r} and {second.object_name!r} accept the same instance types, with "
            "the same "
            f"taints and the same weight, but stand for {apart}: Karpenter picks one at random, so the pods of one "
            "job may be split between them"
        )
