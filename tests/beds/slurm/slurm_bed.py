"""The bed in the hands of a test: commands on its hosts, runs with small specs, and patience with a busy machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from trainwright import targets
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder, find
from trainwright.runs.state import JobRef, JobState

PATIENCE = 240.0  # seconds; only a run that hangs uses them up
SCRIPTS = Path(__file__).parent / "scripts"
EARLY = "early"  # how the names of jobs begin that are started before the first test, because they only wait


@dataclass
class Bed:
    """``folder`` holds the bed's scripts, ``bin`` Slurm's commands as a login node has them."""

    folder: Path
    bin: Path
    here: Path = field(default_factory=Path)
    before: tuple[str, ...] = ()  # what the command line is started by

    def on(self, host: str, *command: str, check: bool = True) -> str:
        """Run a command as a host of the bed; returns what it printed."""
        done = subprocess.run(
            [self.folder / "on", host, *command], capture_output=True, text=True, timeout=60, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} on {host}: {done.stdout}{done.stderr}")
        return done.stdout

    def slurm(self, *command: str) -> str:
        """Run one of Slurm's commands as a user would."""
        done = subprocess.run(
            [self.bin / command[0], *command[1:]], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr

    def queue(self) -> dict[str, str]:
        """Job → name of all that is queued or runs, but for what was begun early and is looked at late."""
        rows = (line.split(" ", 1) for line in self.slurm("squeue", "--noheader", "--format=%i %j").splitlines())
        return {id_: name for id_, name in rows if not name.startswith(EARLY)}

    def clear(self) -> None:
        """No jobs but the early ones, all nodes in service."""
        left = self.queue()
        if left:
            self.slurm("scancel", *left)
        if "idle" not in (states := self.slurm("sinfo", "-h", "-p", "batch", "-o", "%t")) and "mix" not in states:
            for node in ("n1", "n2"):
                self.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")
        wait(lambda: not self.queue(), "an empty queue")

    def restart_controller(self) -> None:
        """End slurmctld, leave Slurm alone for some seconds, and start it again."""
        self._bash("end slurmctld")
        time.sleep(4)
        self.up()

    def up(self) -> None:
        """Start what does not run."""
        subprocess.run([self.folder / "up.sh"], capture_output=True, timeout=120, check=True)

    def _bash(self, text: str) -> None:
        script = f". {self.folder}/bed.sh; {text}"
        subprocess.run(["bash", "-c", script], capture_output=True, timeout=120, check=True)

    def write(self, name: str, *, site: dict[str, Any] | None = None, **fields: Any) -> Path:
        """A spec file, with the site file beside it."""
        slurm = {"cluster": "bed", "partition": "batch", "account": "team", **(site or {})}
        (self.here / "site.yaml").write_text(yaml.safe_dump({"version": 1, "name": "bed", "slurm": slurm}))
        spec = {"version": 1, "name": name, "target": "slurm", "storage": str(self.here / "runs"), **fields}
        path = self.here / f"{name}.yaml"
        text = json.dumps(spec, ensure_ascii=False, indent=1)  # YAML as well, once these are written out
        path.write_text("".join(f"\\u{ord(c):04x}" if c in "\x7f\u2028\u202e" else c for c in text), "utf-8")
        return path

    def script(self, name: str, *, script: str, args: tuple[str, ...] = (), nodes: int = 1, **fields: Any) -> Path:
        """A spec that runs one of ``scripts/`` instead of the built-in trainer."""
        own = {"script": str(SCRIPTS / script), "args": list(args)}
        compute = {"nodes": nodes, "processes_per_node": 1}
        return self.write(name, train=own, compute=compute, global_batch_size=nodes, **fields)

    def python(self, *arguments: str) -> str:
        """Run Python where the command line runs; returns standard output."""
        command = [*self.before, sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def cli(self, *arguments: str, code: int | None = 0) -> str:
        """Run the command line to its end; returns standard output."""
        done = subprocess.run(
            [*self.before, sys.executable, "-m", "trainwright", *arguments],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert code is None or done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + (done.stderr if code else "")

    def start_cli(self, *arguments: str) -> subprocess.Popen[str]:
        """Run the command line in the background."""
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "trainwright", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def submit(self, spec: Path) -> Run:
        """Render and submit as a user does, in two commands."""
        bundle = self.here / f"bundle-{spec.stem}"
        self.cli("render", str(spec), "--dir", str(bundle))
        self.cli("submit", str(bundle))
        return Run(find(spec.stem, self.here / "runs"))


@dataclass(frozen=True)
class Run:
    """A submitted run."""

    folder: RunFolder

    @property
    def ref(self) -> JobRef:
        """Its reference."""
        return targets.of_run(self.folder)[1]

    def status(self) -> JobState:
        """Where it stands."""
        target, ref = targets.of_run(self.folder)
        return target.status(ref)

    def events(self) -> list[dict[str, Any]]:
        """What happened."""
        return read_events(self.folder.events)

    def told(self, kind: str) -> list[dict[str, Any]]:
        """Events of one kind that the batch scripts wrote."""
        return [event for event in self.events() if event["kind"] == kind and event["rank"] == "s"]

    def jobs(self) -> dict[str, str]:
        """Stage → job, of the latest submission."""
        return dict(json.loads(self.folder.job_file.read_text())["submissions"][-1]["jobs"])

    def log(self, attempt: int, rank: int = 0) -> str:
        """What a rank printed; empty before it did."""
        path = self.folder.rank_log(attempt, rank)
        return path.read_text() if path.exists() else ""

    def wait_for(self, *phases: str) -> JobState:
        """The state once the run is in one of these phases."""
        state = self.status()
        end = time.monotonic() + PATIENCE
        while state.phase not in phases:
            if state.final or time.monotonic() > end:
                logs = "\n".join(f"{p}: {p.read_text()[-2000:]}" for p in sorted(self.folder.logs.rglob("*.log")))
                raise AssertionError(f"{state}, not {phases}\n{self.events()}\n{logs}")
            time.sleep(0.3)
            state = self.status()
        return state

    def wait_until_it_says(self, text: str, attempt: int = 1, rank: int = 0) -> None:
        """Until a rank printed a text."""
        wait(lambda: text in self.log(attempt, rank), f"{text!r} in the log of rank {rank}, attempt {attempt}")


@dataclass(frozen=True)
class Early:
    """What needs Slurm's minute to be over, and so is started first and looked at last."""

    run: Run
    timeout: str  # a job
    folder: Path


def wait(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Until something holds; AssertionError when it does not come."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.2)


def pids_of(run: Run, words: str) -> list[int]:
    """Processes of a run whose command line holds ``words``."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            command = Path(f"/proc/{entry}/cmdline").read_bytes() if entry.isdigit() else b""
            mine = command and str(run.folder.root).encode() in Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if mine and words.encode() in command:
            found.append(int(entry))
    return found
