"""TW716: a TrainJob fills in the container named node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_SOURCES = ("torch", "mpi", "jax", "xgboost", "flux")
_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"


class RuntimeCannotBeTrained(ObjectRule):
    """The trainer job has a label, a container name and one replica."""

    id = "TW716"
    severity = "error"
    category = "operators"
    summary = "a training runtime without what TrainJobs need"
    evidence = "verified"
    source = (
        "kubeflow/trainer v2.2 pkg/constants and pkg/webhooks/trainingruntime_webhook.go: ancestor "
        "label, container named node, replicas of 1, one ML policy source"
    )
    kinds: ClassVar[tuple[str, ...]] = ("TrainingRuntime", "ClusterTrainingRuntime")
    groups: ClassVar[tuple[str, ...]] = ("trainer.kubeflow.org",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """What Trainer looks for."""
        policy = subject.get("spec", "mlPolicy")
        sources = [(key, value) for key, value in policy.pairs() if key.raw in _SOURCES]
        if len(sources) > 1:
            yield self.hit(
                sources[1][0],
                f"mlPolicy has {' and '.join(key.raw for key, _ in sources)}: only one is allowed, "
                f"and the API server refuses the runtime",
                "one of them",
            )
        jobs = subject.get("spec", "template", "spec", "replicatedJobs")
        if not jobs.elements() or jobs.open:
            return
        trainer = None
        for job in jobs.elements():
            replicas = job.get("replicas")
            if replicas.integer is not None and replicas.integer != 1:
                yield self.hit(
                    replicas,
                    f"replicas is {replicas.integer}: the webhook allows 1 only (nodes are counted by numNodes)",
                    "replicas: 1, and mlPolicy.numNodes",
                )
            label = job.get("template", "metadata", "labels", _LABEL)
            if label.string == "trainer" or label.unknown or job.get("template", "metadata").open:
                trainer = job
        if trainer is None:
            guess = next((job for job in jobs.elements() if job.get("name").string in ("node", "trainer-node")), None)
            if guess is not None:
                yield self.hit(
                    guess.get("name"),
                    f"no replicated job has the label {_LABEL}: trainer, so Trainer (since 2.0) "
                    f"does not know which one to configure",
                    f"template.metadata.labels: {{{_LABEL}: trainer}} on job {guess.get('name').raw}",
                    severity="warning",
                )
            return
        containers = trainer.get("template", "spec", "template", "spec", "containers")
        names = [container.get("name").string for container in containers.elements()]
        if names and None not in names and "node" not in names and not containers.open:
            yield self.hit(
                containers.elements()[0].get("name"),
                f"Trainer configures the container named node, and there is "
                f"only {', '.join(name or '' for name in names)}: image, command and environment of the TrainJob "
                f"go nowhere",
                "name: node",
            )
