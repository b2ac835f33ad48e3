"""The Ray Train driver of a run: one Ray worker a node, which starts a rank for each of the node's accelerators.

Started as the entrypoint of a Ray job, with its numbers from the plan. Ray Train places the workers, notices lost
ones and starts all of them again; what runs in each is the same as in a pod of any other kind, so attempts,
checkpoints, logs and exit codes are the project's own. Ray is imported only when it is used.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainwright.errors import MissingExtra
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.folder import RUN_DIR_VARIABLE, RunFolder
from trainwright.targets.kubernetes import pod
from trainwright.targets.kubernetes.attempts import Member
from trainwright.targets.kubernetes.mpi import let_save
from trainwright.targets.local.policy import failure_class

PORT = 29500
AGENT = Path(os.environ.get("TRAINWRIGHT_SCRATCH", "/tmp/trainwright")) / "agent.pid"
_STORAGE = "ray"  # Ray Train's own records, inside the run's folder


def stopped_for_good(member: Member) -> int | None:
    """The code that the last attempt of this very spec left when it cannot be mended by another; else None."""
    ends = [mark for mark in member.marks() if mark.ended and mark.digest == member.digest]
    last = max((mark.attempt for mark in ends), default=0)
    codes = [mark.code for mark in ends if mark.attempt == last and failure_class(mark.code) == "user"]
    return codes[0] if codes else None


def work(values: dict[str, Any]) -> None:
    """What one Ray worker does: be one node of the gang, until its ranks have ended.

    Returns when training is complete, or when another try would not mend it; otherwise raises, and Ray Train starts
    all workers again.
    """
    import ray.train
    from ray.train.collective import broadcast_from_rank_zero

    node = ray.train.get_context().get_world_rank()
    os.environ.update(values["environment"])
    run = RunFolder(Path(os.environ[RUN_DIR_VARIABLE]))
    member = Member(run, "train", node, pod.install(run))
    if member.complete() or (values["since"] < _newest_end(run) and stopped_for_good(member) is not None):
        return
    host = broadcast_from_rank_zero(_address())
    command = [sys.executable, "-P", "-m", "trainwright.targets.kubernetes.pod", "train"]
    command += ["--nodes", str(values["nodes"]), "--node-rank", str(node), "--rendezvous", f"{host}:{PORT}"]
    child = subprocess.Popen(command)
    AGENT.parent.mkdir(parents=True, exist_ok=True)
    AGENT.write_text(str(child.pid))
    code = child.wait()
    if code != 0 and failure_class(code) != "user":
        raise RuntimeError(f"node {node} ended with exit code {code}")


def drive(arguments: argparse.Namespace) -> int:
    """Run training to its end; gives the exit code of the Ray job."""
    try:
        import ray
        from ray.exceptions import RayError
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
        from ray.train.v2.api.exceptions import TrainingFailedError
    except ImportError as error:
        raise MissingExtra("the driver of a Ray job", "ray") from error
    run = RunFolder(Path(os.environ[RUN_DIR_VARIABLE]))
    member = Member(run, "train", 0, pod.install(run))
    since = time.time()
    environment = {name: os.environ[name] for name in os.environ if name.startswith("TRAINWRIGHT_")}
    resources = {"CPU": arguments.cpus, **({"GPU": arguments.gpus} if arguments.gpus else {})}
    resources |= {name: float(count) for name, count in (pair.split("=", 1) for pair in arguments.resource)}
    ray.init()
    trainer = DataParallelTrainer(
        work,
        train_loop_config={"nodes": arguments.nodes, "environment": environment, "since": since},
        scaling_config=ScalingConfig(
            num_workers=arguments.nodes,
            use_gpu=arguments.gpus > 0,
            resources_per_worker=resources,
            placement_strategy="STRICT_SPREAD" if arguments.nodes > 1 else "PACK",
        ),
        run_config=RunConfig(
            name=run.run_id,
            storage_path=str(run.root / _STORAGE),
            failure_config=FailureConfig(max_failures=arguments.failures),
        ),
    )
    try:
        trainer.fit()
    except (TrainingFailedError, RayError) as error:  # the nodes have told how training ended
        print(error, file=sys.stderr)  # noqa: T201
        return stopped_for_good(member) or pod.CRASH
    if member.complete():
        return 0
    return stopped_for_good(member) or int(TrainExit.RESUME_ME)


def _newest_end(run: RunFolder) -> float:
    """When the last node ended, by the clock of the storage; 0 for never."""
    return max((path.stat().st_mtime for path in run.logs.glob("*/train-*.exit")), default=0.0)


def _address() -> str:
    """This node's address as others reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: this only asks the kernel for the way out
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def main(words: Sequence[str] | None = None) -> int:
    """Entry of the module."""
    parser = argparse.ArgumentParser(prog="trainwright.targets.ray.driver")
    parser.add_argument("role", choices=("drive", "save"))
    parser.add_argument("--nodes", type=int, default=1, help="Ray workers, one a node")
    parser.add_argument("--cpus", type=float, default=1.0, help="CPUs of each")
    parser.add_argument("--gpus", type=float, default=0.0, help="GPUs of each: as many as it starts ranks")
    parser.add_argument("--resource", action="append", default=[], metavar="NAME=COUNT")
    parser.add_argument("--failures", type=int, default=0, help="failures that start all workers again")
    arguments = parser.parse_args(words)
    if arguments.role == "save":
        let_save(AGENT)
        return 0
    return drive(arguments)


if __name__ == "__main__":
    sys.exit(main())
