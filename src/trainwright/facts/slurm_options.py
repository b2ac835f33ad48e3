"""Options that ``#SBATCH`` lines may carry, and from which Slurm on. Reads ``slurm_options.json`` on first use."""

from __future__ import annotations

from trainwright.facts.data import read_rows
from trainwright.facts.versions import parts


def names() -> list[str]:
    """Every option that sbatch knows, without its dashes."""
    return [name for name, row in read_rows("slurm_options").items() if "of" not in row]


def others() -> list[str]:
    """Options that only srun or salloc know."""
    return [name for name, row in read_rows("slurm_options").items() if "of" in row]


def lacking(option: str, version: str) -> str:
    """Why a version of Slurm does not know an option, in words; empty when it does."""
    row = read_rows("slurm_options")[option]
    since, until = row.get("since"), row.get("until")
    if since is not None and parts(version) < parts(since):
        return f"Slurm {version} does not know --{option}, which came with {since}"
    if until is not None and parts(version) >= parts(until):
        return f"Slurm {version} no longer knows --{option}, which went with {until}"
    return ""
