"""Two pods of a gang, each replaced by itself as an Indexed Job does it, train, fail and go on together."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kubernetes_specs import own_script, plan_of

from trainwright.runs.folder import RunFolder
from trainwright.spec.write import spec_to_yaml

pytestmark = pytest.mark.slow

#: Trains for as long as it is told to: counts steps in a file of its own, which stands for a checkpoint.
SCRIPT = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), int(os.environ["TRAINWRIGHT_ATTEMPT"])
run = pathlib.Path(os.environ["TRAINWRIGHT_RUN_DIR"])
what, steps = sys.argv[1], int(sys.argv[2])
for step in range(steps):
    dist.all_reduce(torch.ones(1))
    print("step", step, flush=True)
    if rank == 1 and attempt == 1 and step == 2 and what == "crash":
        os.kill(os.getpid(), 9)
    if rank == 1 and step == 2 and what == "error":
        raise ValueError("bad row 17")
    (run / f"step-{rank}").write_text(str(step))
    time.sleep(0.2)
dist.barrier()
print("done", sys.argv[3], flush=True)
"""


@dataclass
class Gang:
    """Pods of one run on this machine; ``codes`` are the exit codes of each node's pods in order."""

    folder: Path
    port: int
    codes: dict[int, list[int]] = field(default_factory=lambda: {0: [], 1: []})
    pods: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.folder / "runs" / "demo-00000000")

    def start(self, node: int) -> None:
        environment = {
            **os.environ, "TRAINWRIGHT_CONFIG": str(self.folder), "TRAINWRIGHT_RUN_DIR": str(self.run.root),
            "TRAINWRIGHT_TERMINATION": str(self.folder / f"last-{node}"), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = [sys.executable, "-P", "-m", "trainwright.targets.kubernetes.pod", "train", "--nodes", "2"]
        command += ["--node-rank", str(node), "--rendezvous", f"127.0.0.1:{self.port}"]
        with (self.folder / f"pod-{node}.log").open("ab") as log:
            self.pods[node] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def follow(self, seconds: float = 240.0) -> None:
        """Replace every pod that asks for it, until all are done or one has ended for good."""
        end = time.monotonic() + seconds
        while self.pods and time.monotonic() < end:
            time.sleep(0.2)
            for node, pod in list(self.pods.items()):
                if pod.poll() is None:
                    continue
                del self.pods[node]
                self.codes[node].append(pod.returncode)
                if pod.returncode in (1, 2, 76):
                    for other in self.pods.values():
                        other.kill()
                        other.wait()
                    return
                if pod.returncode != 0:
                    self.start(node)
        assert not self.pods, self.log()

    def log(self) -> str:
        return "".join((self.folder / f"pod-{node}.log").read_text() for node in range(2))

    def last(self, node: int) -> dict[str, object]:
        told: dict[str, object] = json.loads((self.folder / f"last-{node}").read_text())
        return told


def gang(folder: Path, what: str, steps: int) -> Gang:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    spec = own_script(train={"script": str(script), "args": [what, str(steps), "$(X) 'é'\n"]})
    (folder / "spec.yaml").write_text(spec_to_yaml(spec))
    (folder / "plan.json").write_text(plan_of(spec, 2).to_json())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pods = Gang(folder, port)
    for node in range(2):
        pods.start(node)
    return pods


def test_a_gang_trains_and_every_rank_is_in_its_pods_log(tmp_path: Path) -> None:
    pods = gang(tmp_path, "fine", 3)
    pods.follow()
    assert pods.codes == {0: [0], 1: [0]}
    for node in range(2):
        lines = (tmp_path / f"pod-{node}.log").read_text().splitlines()
        assert f"[rank {node}] done $(X) 'é'" in lines


def test_when_a_rank_is_killed_the_whole_gang_starts_again_and_only_that_counts(tmp_path: Path) -> None:
    pods = gang(tmp_path, "crash", 6)
    pods.follow()
    assert pods.codes == {0: [75, 0], 1: [70, 0]}, pods.log()


def test_an_error_of_the_user_is_told_by_the_pod_where_it_happened(tmp_path: Path) -> None:
    pods = gang(tmp_path, "error", 6)
    pods.follow()
    assert pods.codes[1] == [1], pods.log()
    assert set(pods.codes[0]) <= {75}
    told = pods.last(1)
    assert (told["rank"], told["class"], told["exception"]) == (1, "user", "ValueError: bad row 17")


def test_when_a_pod_is_lost_without_a_word_the_other_starts_again_with_its_successor(tmp_path: Path) -> None:
    pods = gang(tmp_path, "fine", 20)
    lost = pods.pods[1]
    while not (pods.run.root / "step-1").exists():
        time.sleep(0.1)
    family = [lost.pid, *_descendants(lost.pid)]
    for pid in family:
        os.kill(pid, signal.SIGKILL)
    lost.wait()
    pods.start(1)
    pods.follow()
    assert pods.codes == {0: [75, 0], 1: [0]}, pods.log()
    assert (pods.run.logs / "2" / "rank-0.log").exists()


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children] + [one for child in children for one in _descendants(int(child))]
