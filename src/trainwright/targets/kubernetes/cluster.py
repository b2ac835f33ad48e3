"""What the project needs of a Kubernetes cluster: eight verbs over plain dictionaries.

Whatever speaks to an API server implements ``Cluster``; the rest of this folder sees only objects as JSON has them.
Errors are sentences: ``InputError`` for what the user wrote, ``AnswerNo`` for what the cluster refuses,
``SystemUnreachable`` for a server that does not answer or lets nobody in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from trainwright.targets.kubernetes.resources import Resource

Object = dict[str, Any]  # one Kubernetes object, as JSON has it
Objects = list[Object]


class Cluster(Protocol):
    """One API server, seen by one user. ``namespace`` is the one that is meant when none is named."""

    context: str
    namespace: str

    def resource(self, api_version: str, kind: str) -> Resource:
        """How a kind is served. A kind that is not: AnswerNo that names what has to be installed."""

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None."""

    def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | str = "",
        fields: str = "",
        namespace: str | None = None,
        everywhere: bool = False,
    ) -> Objects:
        """Objects with those labels and fields, of one namespace or ``everywhere``."""

    def apply(self, object_: Object, *, dry_run: bool = False) -> Object:
        """Server-side apply under the project's field manager, unknown fields refused; what the server made of it."""

    def create(self, object_: Object) -> Object:
        """Create one object; for reviews, whose answer is in what comes back."""

    def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, grace_seconds: int | None = None
    ) -> bool:
        """Delete an object and all that belongs to it; False when it was not there."""

    def watch(
        self, resource: Resource, *, labels: Mapping[str, str] | str = "", seconds: int = 30
    ) -> Iterator[tuple[str, Object]]:
        """``(ADDED|MODIFIED|DELETED, object)`` for at most so many seconds."""

    def logs(self, pod: str, container: str | None = None, *, since: str | None = None) -> bytes:
        """What a container printed, each line after its time; from ``since`` (RFC 3339) on. Empty: nothing."""
