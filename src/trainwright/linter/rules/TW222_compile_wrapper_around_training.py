"""TW222: neuron_parallel_compile around a whole training run."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view.job import JobLaunch

_CAPS = (
    "max_steps",
    "max_train_steps",
    "steps_this_run",
    "num_train_steps",
    "steps",
    "max_iters",
    "train_iters",
    "num_steps",
    "trainer.max_steps",
    "max_epochs",
)


class CompileWrapperAroundTraining(LaunchRule):
    """Under the wrapper nothing is trained."""

    id = "TW222"
    severity = "warning"
    category = "accelerators"
    summary = "neuron_parallel_compile around a whole training run"
    evidence = "verified"
    source = (
        "aws-neuron-sdk, neuron_parallel_compile guide: graphs are only extracted, no real execution is "
        "performed and the outputs are invalid"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The wrapper without a cap on steps."""
        wrapper = next(
            (
                s
                for s in subject.launch.chain
                if s.tool == "wrapper" and (s.name.known or "").rsplit("/", 1)[-1] == "neuron_parallel_compile"
            ),
            None,
        )
        arguments = subject.arguments
        if wrapper is None or subject.launch.script.endswith(".sh") or arguments.has(*_CAPS) or arguments.open:
            return
        epochs = arguments.has("num_train_epochs", "num_epochs", "epochs")
        yield self.hit(
            wrapper,
            "neuron_parallel_compile only extracts and compiles graphs: nothing is trained, and losses "
            "and checkpoints are invalid" + ("; here it goes through all epochs" if epochs else ""),
            "two jobs: neuron_parallel_compile … --max_steps 10, then the same command without the wrapper",
            severity="error" if epochs else None,
        )
