"""Ray with a head and a worker on this machine, in the hands of a test. No root; everything on the loopback.

All of its processes carry a mark in their environment and are ended by pid: ``ray stop`` would end every Ray here.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainwright import targets
from trainwright.errors import SystemUnreachable
from trainwright.runs.folder import RunFolder, find
from trainwright.runs.state import JobState
from trainwright.targets.ray.api import Jobs

PATIENCE = 300.0  # seconds; only what hangs uses them up
_MARK = "TRAINWRIGHT_RAY_BED"
_NODE = ("--num-cpus=4", "--object-store-memory=150000000", "--disable-usage-stats", "--block")


class Ray:
    """A running Ray of two nodes with four CPUs each."""

    def __init__(self, state: Path):
        self._state, self._mark = state, uuid.uuid4().hex
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._gcs, dashboard = free_port(), free_port()
        self.address = f"http://127.0.0.1:{dashboard}"
        self._start(
            "head", "--head", f"--port={self._gcs}", f"--dashboard-port={dashboard}", "--dashboard-host=127.0.0.1",
            f"--ray-client-server-port={free_port()}", f"--temp-dir={state}",
        )  # fmt: skip
        self._until_there("head", self.jobs_answer)
        # both nodes write into one folder: a second monitor would forward every line twice
        self._start("worker", f"--address=127.0.0.1:{self._gcs}", "--include-log-monitor=false")
        self._until_there("worker", lambda: len(Jobs(self.address).nodes()) == 2)

    def jobs_answer(self) -> bool:
        """Whether the Jobs API answers."""
        try:
            return bool(Jobs(self.address, pause=lambda _: None).version())
        except SystemUnreachable:
            return False

    def _until_there(self, name: str, holds: Callable[[], object]) -> None:
        def lives() -> bool:
            assert self._started[name].poll() is None, (self._state / f"{name}.log").read_text()[-2000:]
            return bool(holds())

        until(lives, f"the {name}")

    def _start(self, name: str, *options: str) -> None:
        ports = [f"--dashboard-agent-{kind}-port={free_port()}" for kind in ("listen", "grpc")]
        environment = {
            **os.environ, _MARK: self._mark, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1", "RAY_memory_monitor_refresh_ms": "0",
        }  # fmt: skip
        with (self._state / f"{name}.log").open("wb") as log:
            self._started[name] = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", "--node-ip-address=127.0.0.1", *_NODE, *ports,
                 *options],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True,
            )  # fmt: skip

    def end(self) -> None:
        """Kill every process of this Ray, again until there is none: they start each other."""
        end = time.monotonic() + 30
        while (pids := carrying(f"{_MARK}={self._mark}")) and time.monotonic() < end:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.2)


@dataclass
class Run:
    """One submitted run."""

    folder: RunFolder

    def status(self) -> JobState:
        """Where it stands, as a command line that starts anew sees it."""
        target, ref = targets.of_run(self.folder)
        return target.status(ref)

    def until(self, holds: Callable[[JobState], object], what: str) -> JobState:
        """Look until a state fits. AssertionError shows the last one and the end of the log."""
        end = time.monotonic() + PATIENCE
        while not holds(state := self.status()):
            lines = "\n".join(self.lines()[-40:]) if time.monotonic() > end or state.final else ""
            assert time.monotonic() < end, f"waited in vain for {what}; it is {state}\n{lines}"
            assert not state.final, f"no {what}: it is {state}\n{lines}"
            time.sleep(0.7)
        return state

    def lines(self, rank: int | None = None) -> list[str]:
        """What ``logs`` tells."""
        target, ref = targets.of_run(self.folder)
        return [line.text for line in target.logs(ref, rank=rank)]


@dataclass
class Bed:
    """Runs of one test. ``shared`` is the storage of Ray's nodes; ``runs`` the client's own folder."""

    ray: Ray
    here: Path

    @property
    def shared(self) -> Path:
        """Storage of all nodes."""
        return self.here / "shared"

    def write(self, name: str, **fields: Any) -> Path:
        """A spec file on two nodes with a rank each, and the site beside it."""
        self.shared.mkdir(exist_ok=True)
        site = {"version": 1, "name": "bed", "ray": {"address": self.ray.address}}
        (self.here / "site.yaml").write_text(yaml.safe_dump(site))
        spec = {
            "version": 1, "name": name, "target": "ray", "storage": str(self.shared / "runs"),
            "env": {"OMP_NUM_THREADS": "1"}, "compute": {"nodes": 2, "processes_per_node": 1}, **fields,
        }  # fmt: skip
        path = self.here / f"{name}.yaml"
        path.write_text(yaml.safe_dump(spec))
        return path

    def cli(self, *words: str, code: int = 0) -> str:
        """``trainwright WORDS``; what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "trainwright", *words], capture_output=True, text=True, timeout=PATIENCE,
            check=False, cwd=self.here,
        )  # fmt: skip
        assert done.returncode == code, f"trainwright {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, spec: Path, away: bool = False) -> Run:
        """Render and submit by the command line. ``away``: the client keeps a folder of its own."""
        runs = self.here / "runs" if away else self.shared / "runs"
        self.cli("render", str(spec), "--dir", str(self.here / f"{spec.stem}-bundle"))
        self.cli("submit", str(self.here / f"{spec.stem}-bundle"), "--runs", str(runs))
        return Run(find(spec.stem, runs))


def until(holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.3)


def carrying(mark: str, word: str = "") -> list[int]:
    """Processes whose environment holds a mark, and whose command line a word."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        try:
            if mark.encode() in (path / "environ").read_bytes() and word.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return sorted(found)


def free_port() -> int:
    """A port that is free now, and not one of those that connections are given for themselves."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
