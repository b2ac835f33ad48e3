"""A run of small scripts in place of training: real supervisors, real processes, real signals."""

from __future__ import annotations

import contextlib
import os
import signal
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan
from trainwright.runs.folder import RunFolder
from trainwright.runs.state import JobRef, JobState
from trainwright.spec.load import spec_from_values
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.targets.bundle import Bundle
from trainwright.targets.local.process import end_marked, send
from trainwright.targets.local.record import JobRecord, read_record, read_signature
from trainwright.targets.local.stages import Stage
from trainwright.targets.local.target import Local

PATIENCE = 300.0  # seconds; importing torch three times on a busy machine takes one minute, a broken test takes all

#: What every script starts with: its folder, its attempt, and a way to note that it ran.
PRELUDE = """
import os, pathlib, signal, subprocess, sys, time
run = pathlib.Path(os.environ["TRAINWRIGHT_RUN_DIR"])
attempt = int(os.environ["TRAINWRIGHT_ATTEMPT"])
def note(text):
    with open(run / "notes", "a") as f:
        f.write(f"{text}\\n")
def wait_for(name):
    while not (run / name).exists():
        time.sleep(0.01)
"""

#: Trains until it is told to stop, then saves and asks to be resumed.
UNTIL_STOPPED = """
def stop(*_):
    note("saved")
    sys.exit(75)
signal.signal(signal.SIGTERM, stop)
note(f"training {os.getpid()}")
while True:
    time.sleep(60)
"""


def script(name: str, code: str, *args: str, required: bool = True) -> Stage:
    """A stage that runs a piece of Python."""
    return Stage(name, ("python", "-S", "-c", PRELUDE + textwrap.dedent(code), *args), required)


def until(condition: Callable[[], Any], what: str = "it") -> Any:
    """Wait for something to become true and return it; never a fixed sleep."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen in {PATIENCE:.0f} s"
        time.sleep(0.02)
    return value


class Machine:
    """A folder of runs and the local target over it."""

    def __init__(self, folder: Path):
        self.runs = folder / "runs"
        self.bundles = folder / "bundles"

    def spec(self, **values: Any) -> RunSpec:
        """A spec with an own script; nothing of it but env, secrets and retry matters here."""
        retry = {"user": 0, "infrastructure": 3}
        overrides = {"grace_seconds": 20, "restart_delay_seconds": 0}
        given: Mapping[str, Any] = {
            "name": "job",
            "train": {"script": "/nowhere/train.py"},
            "retry": retry,
            "target": {"name": "local", "overrides": overrides},
            **values,
        }
        return spec_from_values(given)

    def render(self, *stages: Stage, **values: Any) -> Bundle:
        """A bundle whose stages are these scripts."""
        spec = self.spec(**values)
        plan = Plan(spec_sha256=spec.sha256, layout=Layout(), machine="test")
        return Local(stages or None).render(plan, spec, Site(), {})

    def bundle(self, *stages: Stage, **values: Any) -> Path:
        """The same, written to a folder."""
        rendered = self.render(*stages, **values)
        folder = self.bundles / f"{len(list(self.bundles.glob('*')))}"
        rendered.write(folder)
        return folder

    def submit(self, *stages: Stage, fresh: bool = False, **values: Any) -> JobRef:
        """Start the scripts."""
        return Local().submit(self.bundle(*stages, **values), fresh=fresh, runs=self.runs)

    def folder(self, ref: JobRef) -> RunFolder:
        return Local().folder(ref)

    def status(self, ref: JobRef) -> JobState:
        return Local().status(ref)

    def record(self, ref: JobRef) -> JobRecord:
        record = read_record(self.folder(ref))
        assert record is not None
        return record

    def end(self, ref: JobRef) -> JobState:
        """Wait for the run's end."""
        until(lambda: self.status(ref).final, "the end of the run")
        return self.status(ref)

    def notes(self, ref: JobRef) -> list[str]:
        """What the scripts have noted."""
        path = self.folder(ref).root / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def training(self, ref: JobRef, times: int = 1) -> int:
        """Wait until the script trains for the n-th time; its pid."""

        def lines() -> list[str]:
            return [line for line in self.notes(ref) if line.startswith("training ")]

        until(lambda: len(lines()) >= times, "training")
        return int(lines()[times - 1].split()[1])

    def sweep(self) -> None:
        """End everything that a test has left, by its mark."""
        for folder in map(RunFolder, self.runs.glob("*") if self.runs.is_dir() else ()):
            record, signature = read_record(folder), read_signature(folder)
            for supervisor, mark in filter(None, [record and (record.supervisor, record.mark), signature]):
                send(supervisor, signal.SIGKILL)
                end_marked(mark, 0)


def gone(pid: int) -> bool:
    """True when no process of that pid runs; a zombie does not run."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
