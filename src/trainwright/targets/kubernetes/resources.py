"""What kinds of objects are called in the API: group, version and plural. Values only; no cluster is asked.

The table holds the kinds that are looked at on every run. Any other kind is found by asking the API server once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    """One kind as the API serves it. ``namespaced`` is False for nodes, queues of the whole cluster and the like."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As ``apiVersion`` is written: ``v1``, ``batch/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """As permissions and messages name it: ``pods``, ``jobs.batch``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
        """Path on the API server; without a name, that of the list."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts += [part for part in (name, sub) if part]
        return "/".join(parts)


POD = Resource("", "v1", "Pod", "pods")
EVENT = Resource("", "v1", "Event", "events")
CLAIM = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
SECRET = Resource("", "v1", "Secret", "secrets")
SERVICE = Resource("", "v1", "Service", "services")
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
QUOTA = Resource("", "v1", "ResourceQuota", "resourcequotas")
NODE = Resource("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
STORAGE_CLASS = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
CRD = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
JOB = Resource("batch", "v1", "Job", "jobs")

_KNOWN = (
    POD, EVENT, CLAIM, CONFIG_MAP, SECRET, SERVICE, SERVICE_ACCOUNT, QUOTA, NODE, NAMESPACE, STORAGE_CLASS, CRD,
    ACCESS_REVIEW, JOB,
)  # fmt: skip


def known(api_version: str, kind: str) -> Resource | None:
    """A kind that every cluster has, or None."""
    return next((one for one in _KNOWN if one.api_version == api_version and one.kind == kind), None)
