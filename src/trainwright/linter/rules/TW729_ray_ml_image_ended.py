"""TW729: the ray-ml images are no longer built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class RayMlImageEnded(JobRule):
    """``rayproject/ray-ml`` is frozen."""

    id = "TW729"
    severity = "note"
    category = "operators"
    summary = "an image of rayproject/ray-ml, which is no longer built"
    evidence = "verified"
    source = (
        "ray-project/kuberay ray-operator/config/samples: tags of rayproject/ray-ml end in .deprecated since 2.31"
    )
    frontends: ClassVar[tuple[str, ...]] = ("RayCluster", "RayJob", "RayService")

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """The first such image of a job."""
        for container in subject.containers():
            image = (container.image.string or "").rpartition(":")[0]
            if image.endswith("rayproject/ray-ml"):
                yield self.hit(
                    container.image,
                    "the ray-ml images are deprecated: no new Ray version comes with one, and their libraries get no "
                    "fixes",
                    "rayproject/ray:<version>-py312-gpu, and your own libraries on top",
                )
                return
