"""The folder of a run: what is in it and where; the only place that knows these names."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright import plain_json
from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.planner.plan import Plan
from trainwright.runs import identity
from trainwright.runs.events import EventLog
from trainwright.spec.load import read_resolved
from trainwright.spec.model import RunSpec

RUN_DIR_VARIABLE = "TRAINWRIGHT_RUN_DIR"
ATTEMPT_VARIABLE = "TRAINWRIGHT_ATTEMPT"  # set by the launcher of every stage; 1 for the first start


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run. On ``local`` the client's folder and the run root are this one folder."""

    root: Path

    @property
    def run_id(self) -> str:
        """Name of the run: the folder's own."""
        return self.root.name

    @property
    def spec_file(self) -> Path:
        """The resolved spec."""
        return self.root / "spec.yaml"

    @property
    def plan_file(self) -> Path:
        """The plan it runs by."""
        return self.root / "plan.json"

    @property
    def job_file(self) -> Path:
        """What the target needs to find the job again."""
        return self.root / "job.json"

    @property
    def bundle(self) -> Path:
        """The rendered files."""
        return self.root / "bundle"

    @property
    def logs(self) -> Path:
        """Logs: ``<attempt>/rank-<n>.log`` and ``supervisor.log``."""
        return self.root / "logs"

    def stage_log(self, attempt: int, stage: str) -> Path:
        """Standard output and error of one stage (``prepare``, ``train``: the launcher, ``finish``, ``report``)."""
        return self.logs / str(attempt) / f"{stage}.log"

    def rank_log(self, attempt: int, rank: int) -> Path:
        """Standard output and error of one rank of training, written by the launcher of ``train``."""
        return self.logs / str(attempt) / f"rank-{rank}.log"

    @property
    def supervisor_log(self) -> Path:
        """What the local supervisor itself had to say."""
        return self.logs / "supervisor.log"

    @property
    def lock(self) -> Path:
        """Held (flock) by whatever supervises the run, for as long as anything of it lives."""
        return self.root / "run.lock"

    @property
    def cancel_request(self) -> Path:
        """Present once a user asked to cancel; tells a cancel from a shutdown of the machine."""
        return self.root / "cancel.json"

    @property
    def events(self) -> Path:
        """Events, a file for each rank and attempt."""
        return self.root / "events"

    @property
    def metrics(self) -> Path:
        """Metrics of rank 0, a JSON line each."""
        return self.root / "metrics.jsonl"

    @property
    def progress(self) -> Path:
        """How far the running stage is."""
        return self.root / "progress.json"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints, ``step-<8 digits>`` each."""
        return self.root / "checkpoints"

    @property
    def data(self) -> Path:
        """Link or record of the prepared data."""
        return self.root / "data.json"

    @property
    def evaluation(self) -> Path:
        """Results of evaluations and samples."""
        return self.root / "evaluation.json"

    @property
    def export(self) -> Path:
        """The finished model in Hugging Face format."""
        return self.root / "export"

    @property
    def report(self) -> Path:
        """The report."""
        return self.root / "report.html"

    def event_log(self, attempt: int, rank: int | str) -> EventLog:
        """Writer of one rank's events."""
        return EventLog(self.events, self.run_id, attempt, rank)

    def spec(self) -> RunSpec:
        """Read the resolved spec."""
        return read_resolved(self.spec_file)

    def plan(self) -> Plan:
        """Read the plan."""
        return Plan.read(self.plan_file)


def default_runs() -> Path:
    """Where runs are kept unless the spec names a storage: ``$TRAINWRIGHT_RUNS``, else ``runs`` here."""
    return Path(os.environ.get("TRAINWRIGHT_RUNS", "runs")).absolute()


def list_runs(runs: Path) -> list[RunFolder]:
    """Every run in a folder, oldest first by the spec's time; one that lost its spec is a run while it has a job."""
    if not runs.is_dir():
        return []
    found = [RunFolder(path) for path in runs.iterdir() if identity.is_run_id(path.name) and _is_run(path)]
    return sorted(found, key=_submitted)


def find(name: str | None, runs: Path | None = None) -> RunFolder:
    """The run a user means: a folder, a run id, a spec's name (its newest run), or a unique prefix.

    Without a name, the newest of all.
    """
    if name and _is_run(Path(name)):
        return RunFolder(Path(name).absolute())
    where = runs or default_runs()
    everything = list_runs(where)
    if not everything:
        raise InputError([Problem(str(where), what="holds no runs", instead="start one with `trainwright run SPEC`")])
    if not name:
        return everything[-1]
    by_id = {folder.run_id: folder for folder in everything}
    if name in by_id:
        return by_id[name]
    named = [folder for folder in everything if identity.name_of(folder.run_id) == name]
    if named:
        return named[-1]
    near = [folder for folder in everything if folder.run_id.startswith(name)]
    families = {folder.run_id.partition(".")[0] for folder in near}
    if len(families) == 1:
        return near[-1]
    what = f"{name}: no such run" if not near else f"{name} fits {', '.join(sorted(families))}"
    raise InputError([Problem(str(where), what=what, instead=did_you_mean(name, by_id))])


def _submitted(run: RunFolder) -> float:
    for path in (run.spec_file, run.job_file, run.root):
        with contextlib.suppress(OSError):  # removed at this moment
            return path.stat().st_mtime
    return 0.0


def _is_run(folder: Path) -> bool:
    run = RunFolder(folder)
    try:
        return run.spec_file.is_file() or run.job_file.is_file()
    except OSError:  # longer than a name can be, or not ours to read: then it is no folder of a run
        return False


def write_atomically(path: Path, text: str) -> None:
    """Replace a small file: readers see the old or the new text, never a part, also after a crash."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object from a file, or None when the file is missing or holds anything else."""
    try:
        value = plain_json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
