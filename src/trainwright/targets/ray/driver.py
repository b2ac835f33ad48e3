"""The Ray Train driver of a run: one Ray worker a node, which starts a rank for each of the node's accelerators.

Started as the entrypoint of a Ray job, with its numbers from the plan. Ray Train places the workers, notices lost
ones and starts all of them again; stages before and after training are tasks that hold nothing but what they use.
What runs in each is the same as in a pod of any other kind, so attempts, checkpoints, logs and exit codes are the
project's own; the job's log tells of them, too (``telling``). Ray is imported only when it is used.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainwright.errors import MissingExtra, TrainwrightError
from trainwright.runs.exit_codes import Exit, TrainExit
from trainwright.runs.failures import Failure
from trainwright.runs.folder import RUN_DIR_VARIABLE, RunFolder, read_json, write_atomically
from trainwright.targets.kubernetes import pod
from trainwright.targets.kubernetes.attempts import Member
from trainwright.targets.kubernetes.mpi import let_save
from trainwright.targets.local.environment import resolve_secrets
from trainwright.targets.local.policy import failure_class
from trainwright.targets.ray.telling import BEGINS, ENDED, WAITS

AGENT = Path(os.environ.get("TRAINWRIGHT_SCRATCH", "/tmp/trainwright")) / "agent.pid"
_STORAGE = "ray"  # Ray Train's own records, inside the run's folder
_LOOK_SECONDS = 1.0  # between two looks for a wish to stop
_CONFIG = "TRAINWRIGHT_CONFIG"
_TERMINATION = "TRAINWRIGHT_TERMINATION"


def stopped_for_good(member: Member) -> int | None:
    """The code that the last attempt of this very spec left when it cannot be mended by another; else None."""
    ends = [mark for mark in member.marks() if mark.ended and mark.digest == member.digest]
    last = max((mark.attempt for mark in ends), default=0)
    codes = [mark.code for mark in ends if mark.attempt == last and failure_class(mark.code) == "user"]
    return codes[0] if codes else None


def work(values: dict[str, Any]) -> None:
    """What one Ray worker does: be one node of the gang, until its ranks have ended.

    Returns when training is complete, when another try would not mend it, or when the run was cancelled; otherwise
    raises, and Ray Train starts all workers again.
    """
    import ray.train
    from ray.train.collective import broadcast_from_rank_zero

    node = ray.train.get_context().get_world_rank()
    os.environ.update(values["environment"])
    run = RunFolder(Path(os.environ[RUN_DIR_VARIABLE]))
    member = Member(run, "train", node, pod.install(run, Path(os.environ.get(_CONFIG) or pod.CONFIG)))
    if member.complete() or (values["since"] < _newest_end(run) and stopped_for_good(member) is not None):
        return
    meet = broadcast_from_rank_zero(f"{_address()}:{_free_port()}" if node == 0 else "")
    if node == 0:
        print(f"{BEGINS}train", flush=True)  # noqa: T201
    place = ("--nodes", str(values["nodes"]), "--node-rank", str(node), "--rendezvous", meet)
    code = run_stage(run, "train", place)
    if code != 0 and failure_class(code) != "user" and not run.cancel_request.exists():
        raise RuntimeError(f"node {node} ended with exit code {code}")


def run_stage(run: RunFolder, stage: str, place: Sequence[str] = ()) -> int:
    """One stage on this node, as in a pod; what it leaves as its last words is printed. Gives its exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        words = Path(scratch) / "termination"
        environment = {**os.environ, _TERMINATION: str(words)}
        if os.environ.get(_CONFIG):  # in pods the kubelet has put them there
            try:
                environment |= resolve_secrets(run.spec(), os.environ)
            except TrainwrightError as error:
                ended = pod.Ended(Exit.BAD_INPUT, Exit.BAD_INPUT, "user", Failure(str(error)))
                print(ENDED + pod.message(stage, 0, 0, ended), flush=True)  # noqa: T201
                return int(Exit.BAD_INPUT)
        command = [sys.executable, "-P", "-m", "trainwright.targets.kubernetes.pod", stage, *place]
        child = subprocess.Popen(command, env=environment)
        if stage == "train":  # what a pod asks before it ends, so that ranks save
            AGENT.parent.mkdir(parents=True, exist_ok=True)
            AGENT.write_text(str(child.pid))
        asked = 0.0
        while child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_LOOK_SECONDS)
            wish = read_json(run.cancel_request) if run.cancel_request.exists() else None
            if wish is not None and not asked:
                asked = time.monotonic()
                child.send_signal(signal.SIGTERM)
            if wish is not None and time.monotonic() - asked > float(wish.get("grace_seconds", "inf")):
                child.kill()
        with contextlib.suppress(OSError):
            print(ENDED + words.read_text("utf-8"), flush=True)  # noqa: T201
    return child.returncode


def drive(arguments: argparse.Namespace) -> int:
    """Run the stages to their end; gives the exit code of the Ray job."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("the driver of a Ray job", "ray") from error
    run = RunFolder(Path(os.environ[RUN_DIR_VARIABLE]))
    digest = pod.install(run, Path(arguments.config or pod.CONFIG))
    if arguments.config:  # workers find spec and plan where the driver has just put them
        os.environ[_CONFIG] = str(run.root)
    run.cancel_request.unlink(missing_ok=True)  # of a job before this one
    ray.init()
    _stop_by_term(run)
    for stage in arguments.stages.split(","):
        if run.cancel_request.exists():
            return int(TrainExit.RESUME_ME)
        code = _train(run, digest, arguments) if stage == "train" else _task(run, stage, arguments)
        if code != 0:
            return code
    return 0


def _train(run: RunFolder, digest: str, arguments: argparse.Namespace) -> int:
    """Training by Ray Train; gives its exit code."""
    from ray.exceptions import RayError
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    from ray.train.v2.api.exceptions import TrainingFailedError

    member = Member(run, "train", 0, digest)
    since = time.time()
    resources = {"CPU": arguments.cpus, **({"GPU": arguments.gpus} if arguments.gpus else {})}
    resources |= {name: float(count) for name, count in (pair.split("=", 1) for pair in arguments.resource)}
    print(f"{WAITS}train", flush=True)  # noqa: T201
    trainer = DataParallelTrainer(
        work,
        train_loop_config={"nodes": arguments.nodes, "environment": _environment(), "since": since},
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


def _task(run: RunFolder, stage: str, arguments: argparse.Namespace) -> int:
    """A stage on one node, with as many CPUs and GPUs as it uses; tried again after crashes, and when its node is
    lost."""
    import ray
    from ray.exceptions import RayError

    cpus, gpus = (float(part) for part in getattr(arguments, stage).split(","))
    environment = _environment()

    def on_a_node() -> int:
        os.environ.update(environment)
        print(f"{BEGINS}{stage}", flush=True)  # noqa: T201
        return run_stage(RunFolder(Path(os.environ[RUN_DIR_VARIABLE])), stage)

    remote: Callable[..., Any] = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(on_a_node).remote
    code = pod.CRASH
    print(f"{WAITS}{stage}", flush=True)  # noqa: T201
    for _ in range(arguments.failures + 1):
        try:
            code = int(ray.get(remote()))
        except RayError as error:
            print(error, file=sys.stderr)  # noqa: T201
            code = pod.CRASH
        if code == 0 or failure_class(code) == "user" or run.cancel_request.exists():
            return code
    return code


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in os.environ if name.startswith("TRAINWRIGHT_")}


def _stop_by_term(run: RunFolder) -> None:
    """A stopped job's driver is sent TERM: it asks all nodes to save, and ends when they have."""

    def ask(_number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            write_atomically(run.cancel_request, "{}\n")

    signal.signal(signal.SIGTERM, ask)


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


def _free_port() -> int:
    """A port for the nodes to meet at; several runs may be on one machine."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def main(words: Sequence[str] | None = None) -> int:
    """Entry of the module."""
    parser = argparse.ArgumentParser(prog="trainwright.targets.ray.driver")
    parser.add_argument("role", choices=("drive", "save"))
    parser.add_argument("--nodes", type=int, default=1, help="Ray workers, one a node")
    parser.add_argument("--cpus", type=float, default=1.0, help="CPUs of each")
    parser.add_argument("--gpus", type=float, default=0.0, help="GPUs of each: as many as it starts ranks")
    parser.add_argument("--resource", action="append", default=[], metavar="NAME=COUNT")
    parser.add_argument("--failures", type=int, default=0, help="failures that start all workers again")
    parser.add_argument("--stages", default="train", help="in order, with commas between them")
    parser.add_argument("--prepare", default="1,0", metavar="CPUS,GPUS")
    parser.add_argument("--finish", default="1,0", metavar="CPUS,GPUS")
    parser.add_argument("--config", default="", help="folder of spec and plan; by default a pod's")
    arguments = parser.parse_args(words)
    if arguments.role == "save":
        let_save(AGENT)
        return 0
    return drive(arguments)


if __name__ == "__main__":
    sys.exit(main())
