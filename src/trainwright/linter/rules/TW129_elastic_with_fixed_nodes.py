"""TW129: an elasticPolicy beside a fixed --nnodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch


class ElasticWithFixedNodes(LaunchRule):
    """The option on the command line wins over ``PET_NNODES``."""

    id = "TW129"
    severity = "warning"
    category = "launch"
    summary = "an elasticPolicy beside a fixed --nnodes"
    evidence = "verified"
    source = (
        "training-operator 1.9.4: elasticPolicy sets PET_NNODES=min:max, and torchrun's own --nnodes overrides it"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """A range of nodes that a fixed number hides."""
        policy = subject.job.get("spec", "elasticPolicy")
        least, most, told = (
            policy.get("minReplicas").integer,
            policy.get("maxReplicas").integer,
            subject.flags.number("nnodes"),
        )
        first = subject.job.training_launches[:1] == [subject]
        if subject.job.frontend == "PyTorchJob" and least is not None and most is not None and least > most and first:
            yield self.hit(
                policy.get("minReplicas"),
                f"minReplicas is {least} and maxReplicas {most}: torchrun is told to expect {least}:{most} nodes and "
                "stops, and Kubernetes refuses such an autoscaler",
                f"maxReplicas: {least} or more",
                severity="error",
            )
            return
        if (
            subject.job.frontend == "PyTorchJob"
            and subject.tool == "torchrun"
            and least is not None
            and isinstance(told, Known)
            and least < told.value
            and (most is None or least < most)
        ):
            yield self.hit(
                told,
                f"elasticPolicy allows {least} to {most if most is not None else 'more'} nodes, but "
                f"--nnodes={told.value} overrides it: with fewer than {told.value} the job waits "
                "instead of going on",
                "leave --nnodes out (the operator sets "
                f"{least}:{most if most is not None else told.value}), or drop elasticPolicy",
            )
