"""TW737: policies and tasks that Volcano's webhook refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class VolcanoPoliciesContradict(ObjectRule):
    """One policy per event, and one task per name."""

    id = "TW737"
    severity = "error"
    category = "operators"
    summary = "Volcano policies that contradict one another, or tasks of one name"
    evidence = "verified"
    source = (
        "volcano-sh/volcano 1.15.1 pkg/webhooks/admission/jobs/validate/util.go, validatePolicies; admit_job.go, "
        "duplicated task name"
    )
    kinds: ClassVar[tuple[str, ...]] = ("Job",)
    groups: ClassVar[tuple[str, ...]] = ("batch.volcano.sh",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """The job's policies, each task's, and the names of the tasks."""
        spec = subject.get("spec")
        yield from self._policies(spec.get("policies"))
        names: set[str] = set()
        for task in spec.get("tasks").elements():
            yield from self._policies(task.get("policies"))
            name = task.get("name")
            if name.string is not None and name.string in names:
                yield self.hit(
                    name,
                    f"two tasks are called {name.string}: their pods would have the same names, and Volcano's "
                    "webhook refuses the job",
                    "a name of its own for each task",
                )
            names.add(name.string or "")

    def _policies(self, policies: Node) -> Iterator[Hit]:
        seen: set[str] = set()
        codes: set[int] = set()
        for policy in policies.elements():
            single, several, code = policy.get("event"), policy.get("events"), policy.get("exitCode")
            listed = {one.string: one for one in (single, *several.elements()) if one.string}
            if policy.open or any(node.unknown for node in (single, several, code)):
                return
            if not any(node.exists for node in (single, several, code)):
                yield self.hit(
                    policy,
                    "this policy names neither an event nor an exit code: Volcano's webhook refuses the job",
                    "event: PodFailed (or another), beside the action",
                )
            elif listed and code.exists:
                yield self.hit(
                    code,
                    "a policy is for events or for an exit code, not for both: Volcano's webhook refuses the job",
                    "two policies",
                )
            elif code.integer == 0 or code.integer in codes:
                yield self.hit(
                    code,
                    "exit code 0 is success, and no policy can be for it: Volcano's webhook refuses the job"
                    if code.integer == 0
                    else f"two policies are for exit code {code.integer}: Volcano's webhook refuses the job",
                    "one policy for each exit code from 1 to 255",
                )
            for event, node in listed.items():
                if event in seen:
                    yield self.hit(
                        node,
                        f"two policies are for {event}, and only one action can follow it: Volcano's webhook refuses "
                        "the job",
                        f"one policy for {event}",
                    )
            seen |= set(listed)
            codes |= {code.integer} if code.integer is not None else set()
        if "*" in seen and len(seen) > 1:
            yield self.hit(
                policies,
                "a policy for all events (*) leaves none for the other policies: Volcano's webhook refuses the job",
                "only the policy for *, or policies for single events",
            )
