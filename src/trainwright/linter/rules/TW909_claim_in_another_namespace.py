"""TW909: the pod's claim is in another namespace."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods


class ClaimInAnotherNamespace(PodRule):
    """A pod mounts claims of its own namespace only."""

    id = "TW909"
    severity = "error"
    category = "storage"
    summary = "the claim that a pod mounts exists only in another namespace"
    evidence = "verified"
    source = (
        "k8s.io/kubernetes@v1.36.3 pkg/scheduler/framework/plugins/volumebinding/volume_binding.go: "
        "PVCLister.PersistentVolumeClaims(pod.Namespace).Get"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Claims of that name in the same set of files."""
        document = subject.job.object
        if document is None or document.metadata.get("namespace").unknown:
            return
        for volume in subject.group.volumes.values():
            name = volume.claim
            same = (
                [c for c in project.related(document, "PersistentVolumeClaim") if c.object_name == name]
                if name
                else []
            )
            spaces = {claim.namespace for claim in same}
            if not same or document.namespace in spaces or any(c.metadata.get("namespace").unknown for c in same):
                continue
            certain = document.namespace is not None and None not in spaces
            # A claim of that name may also exist in the pod's namespace, outside these files.
            together = all(claim.path == document.path for claim in same)
            there = ", ".join(sorted(space or "default" for space in spaces))
            yield self.hit(
                volume.source.get("claimName"),
                f"claim {name!r} is in namespace {there} and the {document.kind} in "
                f"{document.namespace or 'default'}: "
                "the pod looks for it in its own namespace and stays Pending",
                f"namespace: {there} for the {document.kind}, or a claim (and volume) of its own",
                ("error" if together else "warning") if certain else "note",
            )
