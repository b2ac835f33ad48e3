"""Runs whose code really runs: the built-in trainer or a script in the bed's two real nodes, on storage they share.

The claim is mounted where its folder is on this machine, as a login node has it, unless a test mounts it elsewhere.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes_bed import IMAGE, PATIENCE, Bed

from training.tiny import write_model, write_text
from trainwright import targets
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder, find
from trainwright.runs.state import JobState

SCRIPTS = Path(__file__).parent.parent / "slurm" / "scripts"  # the same scripts run on both beds


@dataclass
class Real:
    """One submitted run."""

    folder: RunFolder

    def status(self) -> JobState:
        """Where it stands, as a command line that starts anew sees it."""
        target, ref = targets.of_run(self.folder)
        return target.status(ref)

    def until(self, holds: Callable[[JobState], object], what: str) -> JobState:
        """Look until a state fits. AssertionError shows the last one."""
        end = time.monotonic() + 2 * PATIENCE
        while True:
            state = self.status()
            if holds(state):
                return state
            assert time.monotonic() < end, f"waited in vain for {what}; it is {state}"
            time.sleep(0.5)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Events of one kind."""
        return [event for event in read_events(self.folder.events) if event["kind"] == kind]

    def lines(self, rank: int | None = None) -> list[str]:
        """What ``logs`` tells."""
        target, ref = targets.of_run(self.folder)
        return [line.text for line in target.logs(ref, rank=rank)]


class RealRuns:
    """Starts runs in one namespace of the bed with real nodes."""

    def __init__(self, bed: Bed, namespace: str, here: Path, mount: str | None = None):
        self.bed, self.namespace, self.here = bed, namespace, here
        self.shared = bed.volume("fsx", namespace)
        self.mount = mount or str(self.shared)
        site = {
            "version": 1, "name": "bed",
            "kubernetes": {"namespace": namespace, "claims": [{"name": "fsx", "path": self.mount}],
                           "node_labels": {"bed/real": "true"}},
        }  # fmt: skip
        (here / "site.yaml").write_text(yaml.safe_dump(site))

    def write(self, name: str, kind: str, **fields: Any) -> Path:
        """A spec file on two nodes, with the site beside it."""
        spec = {
            "version": 1, "name": name, "target": kind, "image": IMAGE, "storage": f"{self.mount}/runs",
            "env": {"OMP_NUM_THREADS": "1"}, "compute": {"nodes": 2, "processes_per_node": 1}, **fields,
        }  # fmt: skip
        path = self.here / f"{name}.yaml"
        path.write_text(yaml.safe_dump(spec))
        return path

    def tiny(self, name: str, kind: str, steps: int, **fields: Any) -> Path:
        """The built-in trainer with a tiny model, whose losses depend on the order of its samples."""
        model, text = self.shared / "model", self.shared / "text.jsonl"
        if not model.exists():
            write_model(model)
            write_text(text)
            subprocess.run(["chmod", "-R", "a+rX", str(self.shared)], check=True)
        return self.write(
            name, kind, model=f"{self.mount}/model",
            data={"sources": [f"{self.mount}/text.jsonl"], "eval_fraction": 0.2},
            sequence_length=24, duration=f"{steps} steps", global_batch_size=4, micro_batch_size=2, precision="fp32",
            schedule={"name": "constant", "warmup": "1 steps"}, checkpoint={"every": "4 steps"}, **fields,
        )  # fmt: skip

    def script(self, name: str, kind: str, script: str, *args: str, **fields: Any) -> Path:
        """A user's own script."""
        shutil.copy(SCRIPTS / script, self.shared / script)
        (self.shared / script).chmod(0o644)
        train = {"script": f"{self.mount}/{script}", "args": list(args)}
        return self.write(name, kind, train=train, global_batch_size=2, **fields)

    def cli(self, *words: str, code: int = 0) -> str:
        """``trainwright WORDS``; what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "trainwright", *words],
            capture_output=True, text=True, timeout=2 * PATIENCE, check=False, cwd=self.here,
        )  # fmt: skip
        assert done.returncode == code, f"trainwright {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, spec: Path) -> Real:
        """Render and submit by the command line."""
        self.cli("render", str(spec), "--dir", str(self.here / f"{spec.stem}-bundle"))
        self.cli("submit", str(self.here / f"{spec.stem}-bundle"), "--runs", str(self.here / "runs"))
        return Real(find(spec.stem, self.here / "runs"))
