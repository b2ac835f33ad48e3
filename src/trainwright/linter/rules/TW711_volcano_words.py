"""TW711: Volcano's webhook refuses words it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.errors import did_you_mean
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_PLUGINS = ("env", "svc", "ssh", "mpi", "pytorch", "tensorflow", "ray", "hcclrank")
_EVENTS = (
    "*",
    "PodPending",
    "PodRunning",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "OutOfSync",
    "CommandIssued",
    "JobUpdated",
)
_ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
    "SyncJob",
    "EnqueueJob",
)


class VolcanoWords(ObjectRule):
    """Plugins, events and actions are closed lists."""

    id = "TW711"
    severity = "error"
    category = "operators"
    summary = "a plugin, event or action that Volcano does not know"
    evidence = "verified"
    source = (
        "volcano-sh/volcano 1.15 pkg/webhooks/admission/jobs/validate (policies and plugins); apis "
        "batch/v1alpha1 and bus/v1alpha1"
    )
    kinds: ClassVar[tuple[str, ...]] = ("Job",)
    groups: ClassVar[tuple[str, ...]] = ("batch.volcano.sh",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Every word of the closed lists."""
        spec = subject.get("spec")
        for key, _ in spec.get("plugins").pairs():
            if key.raw not in _PLUGINS and not key.unknown:
                near = did_you_mean(key.raw, _PLUGINS)
                yield self.hit(
                    key,
                    f"Volcano has no plugin {key.raw}: its webhook refuses the job",
                    near,
                    severity=None if near.startswith("did") else "warning",
                )
        policies = [*spec.get("policies").elements()]
        for task in spec.get("tasks").elements():
            policies += task.get("policies").elements()
        for policy in policies:
            events = [policy.get("event"), *policy.get("events").elements()]
            for node, words, what in (
                *((e, _EVENTS, "event") for e in events),
                (policy.get("action"), _ACTIONS, "action"),
            ):
                if node.string is not None and node.string not in words:
                    yield self.hit(
                        node,
                        f"Volcano has no {what} {node.string}: its webhook refuses the job",
                        did_you_mean(node.string, words),
                    )
