"""TW133: torch.distributed.launch is deprecated and passes --local-rank."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view.job import JobLaunch


class OldLaunchModule(LaunchRule):
    """The old module changes the program's arguments."""

    id = "TW133"
    severity = "warning"
    category = "launch"
    summary = "torch.distributed.launch is deprecated and passes --local-rank"
    evidence = "verified"
    source = (
        "torch/distributed/launch.py (2.15): to be deprecated in favour of torchrun; passes --local-rank "
        "with a hyphen since 2.0"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The module by its name."""
        module = next((w for w in subject.launch.command.words if w.known == "torch.distributed.launch"), None)
        if subject.tool == "torchrun" and module is not None:
            quiet = subject.flags.has("use_env")
            yield self.hit(
                module,
                "torch.distributed.launch is deprecated"
                + (
                    ""
                    if quiet
                    else "; it appends --local-rank to the program's arguments, which parsers for "
                    "--local_rank refuse since PyTorch 2.0"
                ),
                "torchrun with the same options, and int(os.environ['LOCAL_RANK']) in the program",
                severity="note" if quiet else None,
            )
