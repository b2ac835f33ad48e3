"""TW240: CUDA_VISIBLE_DEVICES beside options that make the deepspeed launcher ignore it."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch


class DeepspeedIgnoresVisibleDevices(LaunchRule):
    """The launcher sets the variable itself, by its own options."""

    id = "TW240"
    severity = "warning"
    category = "accelerators"
    summary = "CUDA_VISIBLE_DEVICES beside deepspeed options that make it ignored"
    evidence = "verified"
    source = (
        "deepspeed/launcher/runner.py (0.19.8): VISIBLE_DEVICES is used only without --include, --exclude, "
        "--num_gpus "
        "and --num_nodes"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The variable, set by the user, and one of the options."""
        variable = subject.env("CUDA_VISIBLE_DEVICES")
        option = subject.flags.find("nproc_per_node", "include", "exclude", "nnodes")
        if subject.tool != "deepspeed" or option is None or subject.container is not None:
            return
        if variable is None or variable.place is None or variable.value.known is None:
            return
        written = f"--{ {'nproc_per_node': 'num_gpus', 'nnodes': 'num_nodes'}.get(option.name, option.name) }"
        yield self.hit(
            variable,
            f"with {written} the deepspeed launcher ignores CUDA_VISIBLE_DEVICES={variable.value.known} and counts "
            "GPUs from 0: the job runs on others than these, which somebody else may be using",
            f"--include localhost:{variable.value.known} without the variable, or the variable without {written}",
        )
