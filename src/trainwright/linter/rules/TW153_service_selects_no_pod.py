"""TW153: a headless Service whose selector does not match the pods that use its name."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.text import Span

_OWN = ("batch.kubernetes.io/", "job-name", "controller-uid", "jobset.sigs.k8s.io/", "training.kubeflow.org/",
        "statefulset.kubernetes.io/", "apps.kubernetes.io/", "volcano.sh/", "ray.io/", "leaderworkerset.sigs.k8s.io/",
        "kueue.x-k8s.io/", "trainer.kubeflow.org/")  # fmt: skip


class ServiceSelectsNoPod(PodRule):
    """A pod gets a DNS name when a headless Service of its subdomain selects it."""

    id = "TW153"
    severity = "error"
    category = "launch"
    summary = "the Service of a pod's subdomain does not select the pod"
    evidence = "verified"
    source = "Kubernetes documentation, DNS for Services and Pods: a subdomain needs a headless Service"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Selectors of the Service named as the subdomain, against the labels of the template."""
        group, document = subject.group, subject.job.object
        name = group.spec.get("subdomain").string
        if document is None or not name or group.metadata.open or group.metadata.get("labels").open:
            return
        services = project.related(document, "Service")
        service = next((s for s in services if s.object_name == name), None)
        headless = [s for s in services if s.get("spec", "clusterIP").string == "None" and s.path == document.path]
        if service is None and len(headless) == 1 and headless[0].object_name:
            yield self.hit(
                group.spec.get("subdomain"),
                f"the pods are in subdomain {name}, and the headless Service here is called "
                f"{headless[0].object_name}: "
                "names of the pods end in the name of a Service that does not exist, and do not resolve",
                f"subdomain: {headless[0].object_name}, and the same in the address of rank 0",
                severity="warning",
            )
        if service is None or (service.namespace or "default") != (document.namespace or "default"):
            return
        for key, value in service.get("spec", "selector").pairs():
            own = group.metadata.get("labels", key.raw)
            if value.string is None or own.unknown:
                continue
            if key.raw in ("job-name", "batch.kubernetes.io/job-name") and subject.job.frontend == "Job":
                wrong = document.object_name is not None and value.string != document.object_name
                has = f"the Job is called {document.object_name}"
            else:
                wrong = not key.raw.startswith(_OWN) and own.string != value.string
                has = f"the pods have {own.string}" if own.exists else "the pods have no such label"
            if wrong:
                yield self._hit(value.mark, service, key.raw, value.string, has)
                return

    def _hit(self, place: Span, service: KubernetesObject, key: str, value: str, has: str) -> Hit:
        return self.hit(
            place,
            f"the Service {service.object_name} selects {key}={value}, and {has}: the pods get no DNS name, so the "
            "address of rank 0 does not resolve and the rendezvous fails",
            "a selector that matches the labels of the pods, for example batch.kubernetes.io/job-name of the Job",
        )
