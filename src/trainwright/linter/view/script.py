"""Read the training job out of a shell script: an sbatch file, or a script that starts a launcher.

Takes a ScriptDocument; gives a TrainingJob, or nothing when the script starts no training.
"""

from __future__ import annotations

from trainwright.linter.documents import ConfigDocument, ScriptDocument
from trainwright.linter.project import Project
from trainwright.linter.shell.chain import Resolve, launches
from trainwright.linter.shell.walk import walk_script
from trainwright.linter.text import Text
from trainwright.linter.values import Known, Unknown
from trainwright.linter.view.job import JobLaunch, TrainingJob
from trainwright.linter.view.slurm import Allocation


def read_script(document: ScriptDocument, project: Project) -> TrainingJob | None:
    """The job that a script starts."""
    allocation = Allocation(document.directives) if document.is_sbatch else None
    script = walk_script(document.text, allocation.variables()) if allocation else document.plain
    job = TrainingJob("sbatch" if allocation else "shell", document, slurm=allocation)
    if allocation is not None:
        job.nodes = allocation.node_count
    resolve = resolver(document, project)
    for command in script.commands:
        if "substitution" in command.context:
            continue
        for launch in launches(command, resolve):
            found = JobLaunch(job, launch)
            found.config = accelerate_config(found, project)
            job._launches.append(found)
    if allocation is None:
        if not any(launch.launcher or launch.srun for launch in job.launches):
            return None
        alone = [launch for launch in job.launches if launch.nnodes.known == 1 and launch.flags.has("standalone")]
        job.nodes = Known(1, alone[0].span) if alone else Unknown(document.top)
    return job


def resolver(document: ScriptDocument, project: Project) -> Resolve:
    """Finds the text of a script that a command names."""

    def resolve(name: str) -> Text | None:
        found = project.file(name, document)
        return found.text if isinstance(found, ScriptDocument) and found is not document else None

    return resolve


def accelerate_config(launch: JobLaunch, project: Project) -> ConfigDocument | None:
    """The Accelerate config file that ``--config_file`` names."""
    if launch.tool != "accelerate":
        return None
    named = launch.flags.text("config_file").known
    found = project.file(named, launch.job.document)
    return found if isinstance(found, ConfigDocument) else None
