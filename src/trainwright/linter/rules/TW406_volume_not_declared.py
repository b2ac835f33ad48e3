"""TW406: a volumeMount names a volume that the pod does not declare."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.fields import is_fragment

# Their operators and claim templates add volumes of their own (mpi-job-config, ssh-auth, …).
_FILLED_ELSEWHERE = ("StatefulSet", "NodeSet", "TrainJob", "TrainingRuntime", "ClusterTrainingRuntime", "MPIJob",
                     "RayJob", "RayCluster", "RayService")  # fmt: skip


class VolumeNotDeclared(PodRule):
    """The API server refuses such a pod."""

    id = "TW406"
    severity = "error"
    category = "memory"
    summary = "a volumeMount names a volume that the pod does not declare"
    evidence = "verified"
    source = "k8s.io/kubernetes@v1.36.3 pkg/apis/core/validation/validation.go, ValidateVolumeMounts: NotFound"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Mounts without a volume; groups whose volumes are all written."""
        group = subject.group
        if not group.template.exists or subject.job.frontend in _FILLED_ELSEWHERE:
            return
        document = subject.job.object
        if document is None or is_fragment(document, project):
            return
        names = [node.get("name") for node in group.spec.get("volumes").elements()]
        if group.spec.open or group.spec.get("volumes").open or any(name.string is None for name in names):
            return
        if any("inject" in key.raw for key, _ in group.metadata.get("annotations").pairs()):
            return
        # A JobSet adds the claims of its own templates to every pod (volumeClaimPolicies).
        made = {
            template.get("metadata", "name").string
            for policy in subject.job.get("spec", "volumeClaimPolicies").elements()
            for template in policy.get("templates").elements()
        }
        made |= {
            template.get("metadata", "name").string
            for template in subject.job.get("spec", "leaderWorkerTemplate", "volumeClaimTemplates").elements()
        }
        for container in group.containers:
            # A container without an image is a patch: its volumes stand elsewhere.
            for mount in container.mounts if container.image.exists else ():
                name = mount.node.get("name")
                if mount.volume is None and name.string and not name.unknown and name.string not in made:
                    declared = ", ".join(sorted(group.volumes)) or "none"
                    yield self.hit(
                        name,
                        f"the pod declares no volume {name.string!r} (it declares {declared}): the API server "
                        "refuses "
                        "the pod, so the job never gets one",
                        f"add {name.string!r} to the pod's volumes, or mount one that is declared",
                    )
