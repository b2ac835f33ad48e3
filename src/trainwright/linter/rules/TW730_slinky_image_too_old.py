"""TW730: images that the Slinky operator does not run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.values import version_tuple

_DAEMONS = re.compile(r"(?:^|/)(slurmctld|slurmd|slurmdbd|slurmrestd|login|login-pyxis|slurmd-pyxis):(\d+\.\d+)")
_OLDEST = (25, 11)


class SlinkyImageTooOld(ObjectRule):
    """slurm-operator 1.x runs Slurm 25.11 and newer."""

    id = "TW730"
    severity = "warning"
    category = "operators"
    summary = "a Slurm image that the Slinky operator does not support"
    evidence = "verified"
    source = (
        "SlinkyProject/slurm-operator v1.0 to v1.2.1: helm/slurm-operator/Chart.yaml (minimum Slurm 25.11), "
        "helm/slurm/values.yaml (ghcr.io/slinkyproject images)"
    )
    groups: ClassVar[tuple[str, ...]] = ("slinky.slurm.net",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Images of Slurm's daemons anywhere in the object."""
        if project.versions.at_least("slinky", "1.0") is False:
            return
        for node in subject.node.walk():
            image = node.get("image") if node.type == "mapping" else node
            found = _DAEMONS.search(image.string or "") if node.type == "mapping" else None
            if found is None:
                continue
            strange = "schedmd/" in (image.string or "")
            if version_tuple(found[2]) < _OLDEST or strange:
                yield self.hit(
                    image,
                    (
                        "nobody publishes images below schedmd/ for the operator: the pods stay in ImagePullBackOff"
                        if strange
                        else f"the operator's releases since 1.0 need Slurm 25.11, and this is {found[2]}"
                    )
                    + (
                        f", and Slurm {found[2]} is older than the 25.11 that releases since 1.0 need"
                        if strange and version_tuple(found[2]) < _OLDEST
                        else ""
                    ),
                    f"ghcr.io/slinkyproject/{found[1]}:25.11-ubuntu24.04",
                )
