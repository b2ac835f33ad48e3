"""TW739: settings of a Ray cluster that the operator refuses together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_REPLACED = {
    "REDIS_PASSWORD": "gcsFaultToleranceOptions.redisPassword",
    "RAY_REDIS_ADDRESS": "gcsFaultToleranceOptions.redisAddress",
}


class RaySettingsRefused(ObjectRule):
    """Fault tolerance and autoscaling are said in one place each."""

    id = "TW739"
    severity = "error"
    category = "operators"
    summary = "settings of a Ray cluster that exclude one another"
    evidence = "verified"
    source = "KubeRay 1.6 controllers/ray/utils/validation.go, ValidateRayClusterSpec (read)"
    kinds: ClassVar[tuple[str, ...]] = ("RayCluster", "RayJob", "RayService")
    groups: ClassVar[tuple[str, ...]] = ("ray.io",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Fault tolerance, then the autoscaler."""
        inside = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(subject.kind)
        spec = subject.get("spec", inside) if inside else subject.get("spec")
        containers = spec.get("headGroupSpec", "template", "spec", "containers").elements()
        if spec.open or not containers:
            return
        env = {one.get("name").string or "": one.get("value") for one in containers[0].get("env").elements()}
        yield from self._fault_tolerance(subject, spec, containers[0], env)
        yield from self._autoscaler(spec, env)

    def _fault_tolerance(
        self, subject: KubernetesObject, spec: Node, head: Node, env: dict[str, Node]
    ) -> Iterator[Hit]:
        options = spec.get("gcsFaultToleranceOptions")
        annotation = subject.metadata.get("annotations", "ray.io/ft-enabled")
        if options.unknown or annotation.unknown or subject.metadata.get("annotations").open:
            return
        if options.exists and annotation.exists:
            yield self.hit(
                annotation,
                "gcsFaultToleranceOptions and the older annotation both switch fault tolerance on: the operator "
                "refuses the cluster",
                "gcsFaultToleranceOptions alone",
            )
        for name, instead in _REPLACED.items():
            if options.exists and name in env:
                yield self.hit(
                    _variable(head, name),
                    f"{name} is set beside gcsFaultToleranceOptions: the operator refuses the cluster",
                    instead,
                )
        if not options.exists and (annotation.string or "") != "true" and "RAY_REDIS_ADDRESS" in env:
            yield self.hit(
                _variable(head, "RAY_REDIS_ADDRESS"),
                "RAY_REDIS_ADDRESS switches fault tolerance on behind the operator's back, which does not know of it "
                "then: it refuses the cluster",
                "gcsFaultToleranceOptions: {redisAddress: …}",
            )

    def _autoscaler(self, spec: Node, env: dict[str, Node]) -> Iterator[Hit]:
        switch, wanted = spec.get("enableInTreeAutoscaling"), env.get("RAY_enable_autoscaler_v2")
        if switch.unknown:
            return
        if wanted is not None and wanted.string in ("1", "true") and not switch.boolean:
            yield self.hit(
                wanted,
                "autoscaler v2 is asked for and autoscaling is off: the operator refuses the cluster",
                "enableInTreeAutoscaling: true and autoscalerOptions: {version: v2}",
            )
        groups = spec.get("workerGroupSpecs").elements()
        for group in groups if switch.boolean else ():
            if group.get("suspend").boolean:
                yield self.hit(
                    group.get("suspend"),
                    "a group cannot be suspended while the autoscaler runs: the operator refuses the cluster",
                    "no suspend, or enableInTreeAutoscaling: false",
                )
        if not switch.boolean or spec.get("autoscalerOptions", "version").string != "v2":
            return
        if wanted is not None:
            yield self.hit(
                wanted,
                "autoscalerOptions.version and RAY_enable_autoscaler_v2 are both set: the operator refuses the "
                "cluster",
                "autoscalerOptions.version alone",
            )
        for group in (spec.get("headGroupSpec"), *groups):
            policy = group.get("template", "spec", "restartPolicy")
            if policy.string not in (None, "Never"):
                yield self.hit(
                    policy,
                    f"autoscaler v2 replaces pods itself, and restartPolicy is {policy.raw}: the operator refuses "
                    "the cluster",
                    "restartPolicy: Never",
                )


def _variable(container: Node, name: str) -> Node:
    return next(one for one in container.get("env").elements() if one.get("name").string == name).get("name")
