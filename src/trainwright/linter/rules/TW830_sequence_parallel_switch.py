"""TW830: MoE with tensor parallelism needs --sequence-parallel."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.parallel import count, degrees


class SequenceParallelSwitch(LaunchRule):
    """Megatron's MoE layers want sequence parallelism with tensor parallelism."""

    id = "TW830"
    severity = "warning"
    category = "frameworks"
    summary = "expert and tensor parallelism without sequence parallelism"
    evidence = "verified"
    source = (
        'NVIDIA/Megatron-LM, megatron/training/arguments.py and core/transformer/moe: "When using expert'
        ' parallelism and tensor parallelism, sequence parallelism must be used"'
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The switch and the degrees that it belongs to."""
        found = degrees(subject)
        if not found.megatron:
            return
        tensor, expert = count(found.tensor), count(found.expert)
        switch = subject.arguments.find("sequence_parallel")
        if tensor and expert and tensor > 1 and expert > 1 and switch is None and not subject.arguments.open:
            yield self.hit(
                found.expert,
                f"expert parallelism {expert} with tensor parallelism {tensor} needs sequence parallelism: "
                f"Megatron-LM stops "
                f"when it builds the MoE layers",
                "--sequence-parallel",
            )
        elif switch is not None and tensor == 1 and not subject.arguments.open:
            yield self.hit(
                switch,
                "sequence parallelism splits what tensor parallelism replicates; with tensor-parallel size 1 it is "
                "switched "
                "off",
                "--tensor-model-parallel-size above 1, or no --sequence-parallel",
                severity="note",
            )
