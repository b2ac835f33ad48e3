"""The normalised view: every workload and launch script of a project as a ``TrainingJob``."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject, ScriptDocument
from trainwright.linter.project import Project
from trainwright.linter.view.job import JobLaunch, TrainingJob
from trainwright.linter.view.kubernetes import read_object
from trainwright.linter.view.pods import Container, Mount, PodGroup, Volume
from trainwright.linter.view.script import read_script
from trainwright.linter.view.slurm import Allocation

__all__ = ["Allocation", "Container", "JobLaunch", "Mount", "PodGroup", "TrainingJob", "Volume", "read_jobs"]


def read_jobs(project: Project) -> Iterator[TrainingJob]:
    """The jobs of a project, in order of files."""
    for document in project.documents:
        if isinstance(document, KubernetesObject):
            job = read_object(document, project)
        elif isinstance(document, ScriptDocument) and not (document.holder and document.name == "userData"):
            job = read_script(document, project)
        else:
            continue
        if job is not None:
            yield job
