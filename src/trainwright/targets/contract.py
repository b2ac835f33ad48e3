"""What every target can do: render, submit, watch, cancel and resume one run.

The verbs and the Python API speak to targets only through this protocol. A target turns a plan into native
files, starts them, and answers in the words of ``runs.state``; it never imports the trainer, it starts it by
command. Rendering is pure; everything else may talk to a scheduler and raises ``SystemUnreachable`` when it
cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trainwright.planner.plan import Plan
from trainwright.runs.folder import RunFolder
from trainwright.runs.state import JobRef, JobState
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.targets.bundle import Bundle


@dataclass(frozen=True)
class LogLine:
    """One line of a log, safe to print: control characters are written out, bytes that are no UTF-8 replaced.

    ``source`` is ``rank 3``, the name of a stage, or the name of what supervises the run.
    """

    attempt: int
    source: str
    text: str


class Target(Protocol):
    """A place a run can go. ``name`` is what the spec says; ``grace_seconds`` is its usual time to save on cancel."""

    name: str

    def render(self, plan: Plan, spec: RunSpec, site: Site, versions: Mapping[str, str]) -> Bundle:
        """The native files of a run. Pure: nothing is read or written, equal input gives equal bytes."""

    def submit(self, bundle: Path, *, fresh: bool = False, runs: Path | None = None) -> JobRef:
        """Start the run of a bundle folder.

        A live run is left alone, an unfinished one resumes, a finished one stays finished: each returns its
        reference. ``fresh`` starts another run of the same content. ``runs`` is the folder for the client's
        files; by default the spec's storage, else ``default_runs()``.
        """

    def ref(self, folder: RunFolder) -> JobRef:
        """The reference of the run in a client folder."""

    def folder(self, ref: JobRef) -> RunFolder:
        """The client folder of a reference; InputError when there is none."""

    def status(self, ref: JobRef) -> JobState:
        """Where the run stands now, and why it waits or failed."""

    def statuses(self, refs: Sequence[JobRef]) -> list[JobState]:
        """The same of many runs, in order, with as few questions to the scheduler as it allows."""

    def events(self, ref: JobRef) -> list[dict[str, Any]]:
        """What happened, in order of time."""

    def logs(self, ref: JobRef, *, rank: int | None = None, follow: bool = False) -> Iterator[LogLine]:
        """Lines of every rank and stage, or of one rank. ``follow`` waits for more, through restarts, to the end."""

    def cancel(self, ref: JobRef, *, grace_seconds: float | None = None) -> JobState:
        """Ask the run to save and stop; kill it when it has not after the grace. Returns the state reached."""

    def resume(self, ref: JobRef, bundle: Path | None = None) -> JobRef:
        """Go on from the newest good checkpoint; a live run is left alone.

        ``bundle`` is rendered from an edited spec that ``runs.resume_rules`` has let pass; it replaces the
        run's spec and plan, and then a live run is refused.
        """
