"""TW733: names that the API server refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PLACEHOLDER = re.compile(
    r"[A-Z0-9_]+|.*[<>\[\]{}$%*@].*|.*\.\.\..*|.*(?<![A-Za-z])[A-Z]{2,}(_[A-Z]{2,})+(?![a-z]).*"
)
_FREE = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "APIService")
"""Kinds whose names may hold capitals and colons, or are made of other names."""
_BUILT_IN = ("", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "storage.k8s.io", "scheduling.k8s.io")
_TEMPLATES = ("Pod", "Job", "CronJob", "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet")


class NameNotAllowed(ObjectRule):
    """RFC 1123 names: lower-case letters, digits and hyphens."""

    id = "TW733"
    severity = "error"
    category = "operators"
    summary = "a name that Kubernetes does not allow"
    evidence = "verified"
    source = (
        "k8s.io/apimachinery pkg/util/validation: IsDNS1123Subdomain (253 characters) for names of objects, "
        "IsDNS1123Label (63) for containers, volumes and namespaces"
    )
    kinds: ClassVar[tuple[str, ...]] = ()

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """The object's name and namespace; containers and volumes of Kubernetes' own workloads."""
        if subject.kind in _FREE or not subject.api_version or subject.templated:
            return
        name = subject.metadata.get("name")
        if subject.kind == "Namespace" and subject.group == "":
            yield from self._label(name, "a namespace")
        else:
            yield from self._subdomain(name, subject)
        yield from self._label(subject.metadata.get("namespace"), "a namespace")
        for kind in ("containers", "initContainers", "volumes"):
            if subject.kind in _TEMPLATES and subject.group in _BUILT_IN:
                for element in _pod_spec(subject).get(kind).elements():
                    yield from self._label(element.get("name"), f"one of the {kind}")

    def _subdomain(self, name: Node, subject: KubernetesObject) -> Iterator[Hit]:
        text = name.string
        if not text or _PLACEHOLDER.fullmatch(text) or (_SUBDOMAIN.fullmatch(text) and len(text) <= 253):
            return
        yield self._wrong(name, text, f"the name of a {subject.kind}", 253)

    def _label(self, name: Node, what: str) -> Iterator[Hit]:
        text = name.string
        if not text or _PLACEHOLDER.fullmatch(text) or (_LABEL.fullmatch(text) and len(text) <= 63):
            return
        yield self._wrong(name, text, f"the name of {what}", 63)

    def _wrong(self, name: Node, text: str, what: str, longest: int) -> Hit:
        wrong = sorted({char for char in text if not re.match(r"[a-z0-9.-]", char)})
        shown = ", ".join(repr(char) if char != " " else "a blank" for char in wrong[:4])
        reason = (
            f"has {shown} in it"
            if wrong
            else f"has {len(text)} characters, and {longest} are allowed"
            if len(text) > longest
            else "has a dot in it"
            if "." in text and longest == 63
            else "does not begin and end with a letter or digit"
        )
        return self.hit(
            name,
            f"{what} {reason}: only lower-case letters, digits and hyphens are allowed, and the API server "
            "refuses the object",
            re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:longest] or "a-name-like-this",
        )


def _pod_spec(subject: KubernetesObject) -> Node:
    if subject.kind == "Pod":
        return subject.get("spec")
    if subject.kind == "CronJob":
        return subject.get("spec", "jobTemplate", "spec", "template", "spec")
    return subject.get("spec", "template", "spec")
