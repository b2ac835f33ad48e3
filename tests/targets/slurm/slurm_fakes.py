"""A Slurm that answers its commands but runs nothing, and the target on it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from specs import plan_of, site_of, spec_of

from trainwright.errors import SystemUnreachable
from trainwright.runs.folder import RunFolder
from trainwright.runs.state import JobRef
from trainwright.targets.slurm.client import Client
from trainwright.targets.slurm.target import Slurm
from trainwright.targets.slurm.transport import Done
from trainwright.targets.slurm.watch import Watch


class Killed(BaseException):
    """Stands for kill -9: nothing of ours may catch it."""


class FakeSlurm:
    """The transport under a client: jobs are rows, and a test sets their states."""

    name = "a fake"

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.submitted: list[list[str]] = []
        self.queries = 0
        self.refuse: str | None = None
        self.lose_answer_of: str | None = None
        self.kill_in, self.heard_last = 10**9, True  # after so many commands the client is gone
        self.away_after: int | None = None  # how many submissions are heard before the controller is gone
        self.on_term: Callable[[], None] = lambda: None

    def run(self, argv: Sequence[str], **options: Any) -> Done:
        command = [*argv]
        self.kill_in -= 1
        if self.kill_in == -1 and not self.heard_last:
            raise Killed
        done = self._answer(command)
        if self.kill_in == -1:
            raise Killed
        return done

    def _answer(self, command: list[str]) -> Done:
        if command == ["sbatch", "--version"]:
            return Done(0, "slurm 22.05.8", "")
        if self.away_after is not None and len(self.submitted) >= self.away_after:
            return Done(1, "", "error: Unable to contact slurm controller (connect failure)")
        return getattr(self, f"_{command[0]}")(command)  # type: ignore[no-any-return]

    def set(self, **states: str) -> None:
        """``set(train="FAILED")``: the state of the newest job of that stage."""
        for stage, state in states.items():
            newest = [job for job in self.jobs.values() if job["name"].endswith(f".{stage}")][-1]
            newest["job_state"] = state
            newest["exit_code"] = 256 if state == "FAILED" else 0

    def option(self, number: int, name: str) -> str | None:
        """An option of the n-th sbatch."""
        found = [word for word in self.submitted[number] if word.startswith(f"--{name}=")]
        return found[0].partition("=")[2] if found else None

    def _sbatch(self, argv: list[str]) -> Done:
        self.submitted.append(argv)
        name = next(word for word in argv if word.startswith("--job-name=")).partition("=")[2]
        if self.refuse and name.endswith(self.refuse):
            return Done(1, "", "sbatch: error: Batch job submission failed: Invalid partition name specified")
        id_ = str(100 + len(self.jobs))
        self.jobs[id_] = {"job_id": int(id_), "name": name, "job_state": "PENDING", "exit_code": 0}
        if self.lose_answer_of and name.endswith(self.lose_answer_of):
            raise SystemUnreachable("sbatch did not answer", "")
        return Done(0, f"{id_}\n", "")

    def _squeue(self, argv: list[str]) -> Done:
        self.queries += 1
        text = " ".join(argv)
        ids, names = re.search(r"--jobs=(\S+)", text), re.search(r"--name=(\S+)", text)
        rows = [
            job
            for id_, job in self.jobs.items()
            if (not ids or id_ in ids[1].split(",")) and (not names or job["name"] in names[1].split(","))
        ]
        return Done(0, json.dumps({"jobs": rows}), "")

    def _sacct(self, argv: list[str]) -> Done:
        return Done(1, "", "Slurm accounting storage is disabled")

    def _scancel(self, argv: list[str]) -> Done:
        if argv[1] == "--signal=TERM":
            self.on_term()
        else:
            for id_ in argv[1:]:
                self.jobs[id_]["job_state"] = "CANCELLED"
        return Done(0, "", "")

    def _scontrol(self, argv: list[str]) -> Done:
        return Done(0, "ClusterName             = hpc\n", "")


class Here:
    """A fake Slurm, the target on it, and bundles."""

    def __init__(self, folder: Path):
        self.folder, self.slurm = folder, FakeSlurm()

    @property
    def target(self) -> Slurm:
        """A new one for each call, as every command of the CLI has."""
        client = Client(self.slurm, patience=0.0, sleep=lambda seconds: None)
        return Slurm(Watch(client))

    def bundle(self, name: str = "b", **fields: Any) -> Path:
        spec = spec_of(storage=str(self.folder / "runs"), **fields)
        bundle = self.target.render(plan_of(spec), spec, site_of(), {})
        bundle.write(self.folder / name)
        return self.folder / name

    def run(self, ref: JobRef) -> RunFolder:
        return self.target.folder(ref)

    def names(self) -> list[str]:
        return [job["name"].partition(".")[2] for job in self.slurm.jobs.values()]
