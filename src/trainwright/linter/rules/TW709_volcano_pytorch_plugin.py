"""TW709: the plugin looks for tasks by name and counts pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.values import Known
from trainwright.linter.view.job import TrainingJob


class VolcanoPytorchPlugin(JobRule):
    """The plugin needs its master task, and other tasks confuse its count."""

    id = "TW709"
    severity = "error"
    category = "operators"
    summary = "Volcano's pytorch plugin does not find its tasks, or counts the wrong ones"
    evidence = "verified"
    source = "volcano-sh/volcano 1.15 pkg/controllers/job/plugins/distributed-framework/pytorch/pytorch.go"
    frontends: ClassVar[tuple[str, ...]] = ("VolcanoJob",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """The plugin's arguments against the tasks."""
        plugin = subject.get("spec", "plugins", "pytorch")
        tasks = {group.name: group for group in subject.groups}
        if (
            not plugin.exists
            or plugin.unknown
            or any(not name for name in tasks)
            or subject.get("spec", "tasks").open
        ):
            return
        names = {"master": "master", "worker": "worker"}
        for argument in plugin.elements():
            option, _, value = (argument.string or "").lstrip("-").partition("=")
            if option in names and value:
                names[option] = value
        if any(argument.unknown for argument in plugin.elements()) or not tasks:
            return
        if names["master"] not in tasks:
            yield self.hit(
                plugin,
                f"the pytorch plugin looks for a task named {names['master']}, and there are only "
                f"{', '.join(tasks)}: it sets "
                f"no MASTER_ADDR, RANK and WORLD_SIZE, and the workers never meet",
                f"a task named {names['master']}, or --master={next(iter(tasks))}",
            )
            return
        helpers = [group for name, group in tasks.items() if name not in names.values()]
        fixed = any(isinstance(launch.flags.number("nnodes"), Known) for launch in subject.training_launches)
        if helpers and not fixed:
            helper = helpers[0]
            place = helper.entry.get("name")
            yield self.hit(
                place if place.exists else plugin,
                f"task {helper.name} ({helper.count.known or 'some'} pods) is no rank of the training, but versions "
                f"of the "
                f"pytorch plugin that count all pods set WORLD_SIZE with it: the ranks wait for others that never "
                f"come",
                "WORLD_SIZE or --nnodes as a number, or the helpers in a job of their own",
                severity="warning",
            )
