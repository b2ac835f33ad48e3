"""Versions: which releases of a scheduler or kind the renderers know, and on which they are proved.

Reads ``versions.json`` on first use. It must not know what a renderer writes for a version.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts.data import read_rows


@dataclass(frozen=True)
class Versions:
    """``known`` is in order of age; ``default`` is rendered for when nobody names a version."""

    kind: str
    known: tuple[str, ...]
    proved: tuple[str, ...]
    default: str


def versions(kind: str) -> Versions:
    """The versions of ``slurm``, ``kubernetes``, ``jobset`` …; an unknown kind is an InputError."""
    rows = read_rows("versions")
    if kind not in rows:
        raise InputError(
            [Problem("--versions", what=f"no versions of {kind} are known", instead=did_you_mean(kind, rows))]
        )
    row = rows[kind]
    return Versions(kind, tuple(row["known"]), tuple(row["proved"]), row["default"])


def choose(kind: str, asked: str | None) -> str:
    """The known version that ``asked`` belongs to (``22.05.8`` is ``22.05``), or the default. Unknown: InputError.

    A version newer than every known one counts as the newest: schedulers keep their interfaces for several releases.
    """
    table = versions(kind)
    if asked is None:
        return table.default
    fitting = [known for known in table.known if asked == known or asked.startswith(f"{known}.")]
    if fitting:
        return max(fitting, key=len)
    try:
        if parts(asked) > parts(table.known[-1]):
            return table.known[-1]
    except ValueError:
        pass
    instead = f"known are {', '.join(table.known)}"
    raise InputError([Problem(f"--versions {kind}={asked}", what=f"{kind} {asked} is not known", instead=instead)])


def parts(version: str) -> tuple[int, ...]:
    """``23.11.4`` as numbers, for comparisons. Raises ValueError for anything else."""
    return tuple(int(part) for part in version.removeprefix("v").split("."))
