"""TW608: the ClusterQueue has no quota for something the job asks for."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.pods import EFA, GPU_RESOURCES, NEURON_RESOURCES

_RESOURCES = (EFA, *GPU_RESOURCES, *NEURON_RESOURCES)


class QueueLacksResource(JobRule):
    """Every requested resource must be covered."""

    id = "TW608"
    severity = "error"
    category = "scheduling"
    summary = "the job asks for a resource that its ClusterQueue does not cover"
    evidence = "verified"
    source = (
        "sigs.k8s.io/kueue@v0.17.0 pkg/scheduler/flavorassigner/flavorassigner.go, findFlavorForPodSets: resource … "
        "unavailable in ClusterQueue"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Extended resources of the pods against coveredResources."""
        document = subject.object
        name = document.metadata.get("labels", "kueue.x-k8s.io/queue-name").string if document is not None else None
        local = project.find(subject.document, "LocalQueue", name, document.namespace if document else None)
        if local is None:
            return
        queue = project.find(local, "ClusterQueue", local.get("spec", "clusterQueue").string)
        if queue is None:
            return
        covered = {
            resource.string
            for group in queue.get("spec", "resourceGroups").elements()
            for resource in group.get("coveredResources").elements()
        }
        if not covered or None in covered:
            return
        seen: set[str] = set()
        for container in subject.containers():
            for part in ("limits", "requests"):
                for key, _ in container.asked(part).pairs():
                    if key.raw in _RESOURCES and key.raw not in covered and key.raw not in seen:
                        seen.add(key.raw)
                        yield self.hit(
                            key,
                            f"ClusterQueue {queue.object_name!r} covers no {key.raw} (it covers "
                            f"{', '.join(sorted(c for c in covered if c))}): Kueue never admits the job",
                            f"{key.raw} in coveredResources with a quota in every flavor, or in "
                            "resources.excludeResourcePrefixes of Kueue's configuration",
                        )
