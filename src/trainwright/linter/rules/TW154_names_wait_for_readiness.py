"""TW154: pods get their DNS names only when they are ready, and become ready only when they have met."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.network import spans_nodes


class NamesWaitForReadiness(PodRule):
    """A headless Service leaves pods out that are not ready."""

    id = "TW154"
    severity = "warning"
    category = "launch"
    summary = "a readiness probe keeps pods out of the DNS that the rendezvous needs"
    evidence = "verified"
    source = "Kubernetes API, Service: publishNotReadyAddresses is false by default, and DNS then has ready pods only"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Gangs with a probe below a Service that publishes ready pods only."""
        group, document = subject.group, subject.job.object
        name = group.spec.get("subdomain").string
        if document is None or not name or not spans_nodes(subject.job):
            return
        probed = next((c for c in group.main_containers if c.node.get("readinessProbe").exists), None)
        service = next((s for s in project.related(document, "Service") if s.object_name == name), None)
        if probed is None or service is None or service.get("spec").open:
            return
        published = service.get("spec", "publishNotReadyAddresses")
        if published.boolean or published.unknown or service.get("spec", "clusterIP").string != "None":
            return
        yield self.hit(
            published if published.exists else service,
            f"the Service {name} gives names to ready pods only, and {probed.name!r} has a readiness probe: "
            f"ranks look for "
            "one that is not ready before it has met them, so the rendezvous waits until it times out",
            "publishNotReadyAddresses: true, or no readiness probe on training pods",
        )
