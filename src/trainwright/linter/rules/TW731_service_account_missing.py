"""TW731: pods that name a service account which nothing creates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.fields import is_fragment


class ServiceAccountMissing(ObjectRule):
    """A pod is refused until its service account exists."""

    id = "TW731"
    severity = "warning"
    category = "operators"
    summary = "a workload names a service account that its own new namespace does not get"
    evidence = "verified"
    source = (
        'Kubernetes ServiceAccount admission controller: pods are refused with "error looking up service account" '
        "until it exists"
    )
    kinds: ClassVar[tuple[str, ...]] = ("Deployment", "DaemonSet", "StatefulSet", "Job")
    groups: ClassVar[tuple[str, ...]] = ("apps", "batch")

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Workloads whose file creates the namespace, so that nothing in it can have been there before."""
        node = subject.get("spec", "template", "spec", "serviceAccountName")
        if node.string in (None, "", "default") or subject.namespace is None or is_fragment(subject, project):
            return
        created = [o.object_name for o in project.objects("Namespace") if o.path == subject.path]
        if subject.namespace not in created:
            return
        accounts = project.objects("ServiceAccount")
        if any(o.object_name == node.string and o.namespace in (subject.namespace, None) for o in accounts):
            return
        if any(o.templated for o in accounts):
            return
        yield self.hit(
            node,
            f"this file makes the namespace {subject.namespace}, and nothing makes the service account {node.string} "
            f"in it: the {subject.kind} is accepted, and none of its pods is ever created",
            f"a ServiceAccount {node.string} in {subject.namespace} with the roles it needs, or the project's own "
            "installation manifest, which brings custom resources, account and roles along",
        )
