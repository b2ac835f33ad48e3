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
        elif isinstance(document, ScriptDocument) and not _part_of_another(document):
            job = read_script(document, project)
        else:
            continue
        if job is not None:
            yield job


def _part_of_another(document: ScriptDocument) -> bool:
    """Whether a script is no job of its own: userData, or a here-document that another script writes and runs."""
    if document.holder is None:
        return False
    return document.name == "userData" or (isinstance(document.holder, ScriptDocument) and not document.is_sbatch)
