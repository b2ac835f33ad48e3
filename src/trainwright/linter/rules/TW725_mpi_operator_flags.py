"""TW725: options of v1alpha1 stop the operator."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import version_tuple

_IMAGE = re.compile(r"mpi-?operator(?:/mpi-operator)?:v?(\d+\.\d+(?:\.\d+)?)")
_GONE = ("gpus-per-node", "kubectl-delivery-image", "processing-units-per-node", "processing-resource-type",
         "enable-gang-scheduling")  # fmt: skip


class MpiOperatorFlags(PodRule):
    """mpi-operator 0.4 dropped the options of older versions."""

    id = "TW725"
    severity = "error"
    category = "operators"
    summary = "the MPI operator is started with options that it no longer has"
    evidence = "verified"
    source = (
        "kubeflow/mpi-operator 0.8 cmd/mpi-operator/app/options/options.go; 0.2.3 cmd/mpi-operator.v1alpha1/main.go"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Old options of new images."""
        for container in subject.group.main_containers:
            match = _IMAGE.search(container.image.string or "")
            if match is None or version_tuple(match[1]) < (0, 4):
                continue
            for word in container.words:
                name = (word.known or "").lstrip("-").partition("=")[0]
                if name in _GONE and (word.known or "").startswith("-"):
                    yield self.hit(
                        word,
                        f'mpi-operator {match[1]} has no option --{name}: it stops with "flag provided but not '
                        f'defined" and restarts for ever',
                        "remove it",
                    )
