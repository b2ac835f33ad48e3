"""TW145: two options of sbatch of which only one may be given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class OptionsExcludeEachOther(JobRule):
    """Slurm refuses some pairs, and used to let one of them win."""

    id = "TW145"
    severity = "warning"
    category = "launch"
    summary = "two #SBATCH options that exclude each other"
    evidence = "verified"
    source = (
        "SchedMD/slurm CHANGELOG 23.02, 25.11, 26.05 and src/common/slurm_opt.c (fatal: mutually exclusive); "
        "facts/slurm_exclusions.json"
    )
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Pairs of the table."""
        if subject.slurm is None:
            return
        flags = subject.slurm.flags
        for row in read_rows("slurm_exclusions").values():
            first, second = flags.find(row["first"]), flags.find(row["second"])
            if first is None or second is None:
                continue
            if "value" in row and (second.value is None or row["value"] not in second.value.expanded):
                continue
            since = row.get("since", "")
            reached = project.versions.at_least("slurm", since) if since else None
            later = max(first, second, key=lambda flag: flag.span.start)
            names = f"--{row['first'].replace('_', '-')} and --{row['second'].replace('_', '-')}"
            yield self.hit(
                later,
                f"{names} exclude each other"
                + (f": Slurm {since} and newer refuse the job, older ones let one of them win" if since else "")
                + ("" if since else ": the last one wins"),
                row["instead"],
                # What only the newest releases refuse still works on most clusters.
                severity="error" if reached else "note" if reached is False or since > "24" else None,
            )
