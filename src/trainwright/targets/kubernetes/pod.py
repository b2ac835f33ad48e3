"""Inside a pod: run one stage on one node of a run, and leave with the code that Kubernetes is to act on.

Started as ``python -m trainwright.targets.kubernetes.pod STAGE``. Puts spec and plan into the run's folder, finds the
attempt to join, starts the verb, copies what ranks print to the pod's own log, ends this node when another one has
ended, and tells at the end what happened: in the run's events and in the pod's termination message. It starts
training by command and never imports it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from trainwright.errors import TrainwrightError
from trainwright.runs.events import SUPERVISOR, read_events
from trainwright.runs.exit_codes import Exit, TrainExit
from trainwright.runs.failures import Failure, failures_of_ranks, first_failure
from trainwright.runs.folder import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE, RunFolder, write_atomically
from trainwright.runs.steps import saved_step
from trainwright.spec.model import Retry
from trainwright.targets.kubernetes.attempts import Member
from trainwright.targets.local.policy import IDLE_RESUMES, failure_class
from trainwright.targets.local.process import MARK_VARIABLE, end_marked
from trainwright.targets.logs import Tail

CONFIG = Path(os.environ.get("TRAINWRIGHT_CONFIG", "/etc/trainwright"))
TERMINATION = Path(os.environ.get("TRAINWRIGHT_TERMINATION", "/dev/termination-log"))
CRASH = 70  # as trainwright.training.worker names it
_STARTED_AGAIN = 128  # added for operators that take every code below 128 for the end of the job
_POLL_SECONDS = 0.25
_WATCH_SECONDS = 3.0  # between two looks at what the other nodes do: each is a listing on shared storage
_PATIENCE_SECONDS = 60.0  # for ranks to end by themselves once their gang is broken
_LEFT_BEHIND_SECONDS = 5.0  # between TERM and KILL for what a launcher has left behind
_NAME_SECONDS = 1800.0  # for the first node to be started and to get its name
_MESSAGE_BYTES = 4000  # Kubernetes keeps 4096 of a termination message
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


@dataclass(frozen=True)
class Ended:
    """How a stage ended on this node: the code of the verb, the one to leave with, and why."""

    code: int
    leave: int
    class_: str
    failure: Failure | None = None
    saved: int | None = None


def install(run: RunFolder, config: Path = CONFIG) -> str:
    """Put spec and plan into the run's folder; gives their digest. Raises OSError when it cannot."""
    digest = hashlib.sha256()
    run.root.mkdir(parents=True, exist_ok=True)
    for target in (run.plan_file, run.spec_file):
        text = (config / target.name).read_text("utf-8")
        digest.update(text.encode())
        if not target.is_file() or target.read_text("utf-8") != text:
            write_atomically(target, text)
    for folder in (run.events, run.logs):
        folder.mkdir(exist_ok=True)
    return digest.hexdigest()[:16]


def verbs(stage: str, own_script: bool) -> tuple[tuple[str, bool], ...]:
    """The verbs of a stage and whether the stage fails with them."""
    if stage != "finish":
        return ((stage, True),)
    report = ("report", False)
    return (report,) if own_script else (("finish", True), report)


def judge(
    code: int, failures: Sequence[Failure], *, node: int, processes: int, stopped: bool, broken: bool, retry: Retry,
    events: Sequence[dict[str, Any]], saved: int | None, stage: str,
) -> Ended:  # fmt: skip
    """What the end of the verb means. Of a gang, only the node where it began says how; the others ask to go on.

    ``failures`` are those of all ranks of the attempt, as far as they are known. ``stopped``: this pod was asked to
    end. ``broken``: another node has ended before.
    """
    if code == 0:
        return Ended(0, 0, "finished", None, saved)
    class_ = failure_class(code)
    failure, elsewhere = _origin(failures, node, processes)
    if class_ == "resume" or stopped or broken or elsewhere:
        ended = Ended(code, TrainExit.RESUME_ME, "resume", None if stopped else failure, saved)
        # a gang that breaks again and again without any progress is no accident of others
        return replace(ended, leave=CRASH) if _idle(events, stage, saved) and not stopped else ended
    if class_ == "user":
        used = sum(e.get("class") == "user" for e in _ends(events, stage))
        return Ended(code, CRASH if used < retry.user else code, class_, failure, saved)
    return Ended(code, CRASH if code < 0 else code, class_, failure, saved)


def _origin(failures: Sequence[Failure], node: int, processes: int) -> tuple[Failure | None, bool]:
    """The failure that tells most of this node's end, and whether it began on another node.

    An echo tells of a failure elsewhere. A node whose ranks left no exception has crashed by itself, whatever others
    say of it.
    """
    own = [f for f in failures if f.rank is None or f.rank // max(1, processes) == node]
    real = [f for f in failures if not f.echo]
    if real:
        return real[0], real[0] not in own
    return (own[0], True) if own else (None, False)


def _ends(events: Sequence[dict[str, Any]], stage: str) -> list[dict[str, Any]]:
    return [e for e in events if e.get("rank") == SUPERVISOR and e.get("stage") == stage and "saved" in e]


def _idle(events: Sequence[dict[str, Any]], stage: str, saved: int | None) -> bool:
    """Whether the last attempts were resumed without a new checkpoint, more often than is free."""
    attempts = {e["attempt"]: e for e in _ends(events, stage)}
    last = list(attempts.values())[-IDLE_RESUMES:]
    idle = [e for e in last if e.get("class") == "resume" and e.get("saved") == saved]
    return len(idle) == IDLE_RESUMES


def message(stage: str, attempt: int, node: int, ended: Ended) -> str:
    """The pod's termination message: one JSON object that Kubernetes keeps with the pod's status."""
    failure = ended.failure
    told = {
        "v": 1, "stage": stage, "attempt": attempt, "node": node, "code": ended.code, "class": ended.class_,
        "rank": failure.rank if failure else None, "exception": failure.text if failure else None,
        "line": failure.where if failure else None, "saved": ended.saved,
    }  # fmt: skip
    text = json.dumps(told, ensure_ascii=False)
    while len(text.encode()) > _MESSAGE_BYTES and told["exception"]:
        told["exception"] = str(told["exception"])[: len(str(told["exception"])) // 2]
        text = json.dumps(told, ensure_ascii=False)
    return text


class Supervisor:
    """One stage on one node. ``broken`` says whether another node of the gang has ended."""

    def __init__(self, run: RunFolder, member: Member, attempt: int, ranks: range):
        self.run, self.member, self.attempt = run, member, attempt
        self.stopped = self.broken = False
        self._child: subprocess.Popen[bytes] | None = None
        self._tails = [(f"[rank {rank}] ", Tail(run.rank_log(attempt, rank))) for rank in ranks]
        self._out = threading.Lock()

    def listen(self) -> None:
        """Pass signals on. As the first process of a container this one would otherwise ignore them."""
        for number in _PASSED_ON:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        self.stopped = True
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)

    def execute(self, command: Sequence[str], environment: dict[str, str]) -> int:
        """Run the command to its end and give its exit code (negative: ended by that signal)."""
        if self.stopped:
            return TrainExit.RESUME_ME
        log = self.run.stage_log(self.attempt, self._log_name)
        log.parent.mkdir(parents=True, exist_ok=True)
        mark = uuid.uuid4().hex
        environment = {**environment, MARK_VARIABLE: mark}
        self._child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._child.stdout is not None
        with log.open("ab", buffering=0) as file:
            pump = threading.Thread(target=self._copy, args=(self._child.stdout, file), daemon=True)
            pump.start()
            code = self._wait(self._child)
            # where this is not the first process of a container, ranks would outlive a launcher that was killed
            end_marked(mark, _LEFT_BEHIND_SECONDS)
            pump.join(timeout=10)  # a process that a rank left behind may hold the pipe open
        self._print_ranks()
        return code

    @property
    def _log_name(self) -> str:
        return self.member.stage if self.member.node == 0 else f"{self.member.stage}-node{self.member.node}"

    def _wait(self, child: subprocess.Popen[bytes]) -> int:
        look, broken_at = time.monotonic() + _WATCH_SECONDS, 0.0
        while child.poll() is None:
            time.sleep(_POLL_SECONDS)
            self._print_ranks()
            now = time.monotonic()
            if now >= look and not self.broken:
                look, self.broken = now + _WATCH_SECONDS, self.member.abandoned(self.attempt)
                broken_at = now
            if self.broken and now - broken_at > _PATIENCE_SECONDS:
                # ranks that wait for a lost one in a collective answer neither to a wish nor to a signal they handle
                late = now - broken_at > 2 * _PATIENCE_SECONDS
                child.send_signal(signal.SIGKILL if late else signal.SIGTERM)
                time.sleep(_POLL_SECONDS)
        return child.returncode

    def _copy(self, source: BinaryIO, log: BinaryIO) -> None:
        for line in source:
            log.write(line)
            self._say(line)

    def _print_ranks(self) -> None:
        for prefix, tail in self._tails:
            while lines := tail.read():
                self._say("".join(f"{prefix}{line}\n" for line in lines).encode())

    def _say(self, text: bytes) -> None:
        with self._out:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()


def wait_for_name(host: str, stopped: Callable[[], bool], seconds: float = _NAME_SECONDS) -> bool:
    """Until the first node has its name in DNS, which it gets when its pod is started."""
    end = time.monotonic() + seconds
    said = False
    while time.monotonic() < end and not stopped():
        try:
            socket.getaddrinfo(host, None)
            return True
        except OSError:
            if not said:
                print(f"waiting for {host}, the first node, to be started", flush=True)  # noqa: T201
                said = True
            time.sleep(1.0)
    return False


def run_stage(arguments: argparse.Namespace) -> int:
    """The whole life of the pod; gives the exit code to leave with."""
    stage, node = str(arguments.stage), int(arguments.node_rank)
    run = RunFolder(Path(os.environ[RUN_DIR_VARIABLE]))
    digest = install(run)
    spec = run.spec()
    member = Member(run, stage, node, digest)
    several = stage == "train" and arguments.nodes > 1
    if several and member.complete():
        print("training is complete: nothing is left to do for this node", flush=True)  # noqa: T201
        return 0
    attempt = member.start()
    processes = max(1, run.plan().layout.world_size // arguments.nodes) if stage == "train" else 0
    supervisor = Supervisor(run, member, attempt, range(node * processes, (node + 1) * processes))
    supervisor.listen()
    log = run.event_log(attempt, SUPERVISOR)
    if node == 0:
        log.write("started", stage=stage, job=os.environ.get("HOSTNAME", ""), nodes=arguments.nodes)
    place: list[str] = []
    if several:
        wait_for_name(arguments.rendezvous.rpartition(":")[0], lambda: supervisor.stopped)
        place = ["--nodes", str(arguments.nodes), "--node-rank", str(node), "--rendezvous", arguments.rendezvous]
    environment = {**os.environ, ATTEMPT_VARIABLE: str(attempt)}
    code = 0
    for verb, required in verbs(stage, spec.train is not None):
        command = (
            sys.executable,
            "-P",
            "-m",
            "trainwright",
            verb,
            str(run.root),
            *(place if verb == "train" else ()),
        )
        ended = supervisor.execute(command, environment)
        if ended != 0 and required:
            code = ended
            break
        if ended != 0:
            print(f"{verb} failed; the run did not", flush=True)  # noqa: T201
    events = read_events(run.events)
    end = judge(
        code,
        _failures(run, attempt, stage, events) if code not in (0, TrainExit.RESUME_ME) else [],
        node=node, processes=processes, stopped=supervisor.stopped, broken=supervisor.broken, retry=spec.retry,
        events=events, saved=saved_step(run), stage=stage,
    )  # fmt: skip
    member.end(attempt, end.leave)
    _tell(run, stage, attempt, node, end)
    return end.leave


def _failures(run: RunFolder, attempt: int, stage: str, events: Sequence[dict[str, Any]]) -> list[Failure]:
    """What ranks say of the end of an attempt; of a stage without ranks, what its log says."""
    if stage == "train":
        return failures_of_ranks(run, attempt, events)
    failure = first_failure(run, attempt, stage, events)
    return [failure] if failure is not None else []


def _tell(run: RunFolder, stage: str, attempt: int, node: int, end: Ended) -> None:
    """Write the end into the events, and as the pod's last words."""
    log = run.event_log(attempt, SUPERVISOR)
    failure = end.failure
    about: dict[str, Any] = {"stage": stage, "code": end.code, "class": end.class_, "saved": end.saved, "node": node}
    if end.class_ == "resume" and node == 0:
        log.write("restarted", **about)
    elif end.class_ in ("user", "infrastructure"):
        told = {"exception": failure.text, "line": failure.where, "failing_rank": failure.rank} if failure else {}
        log.write("failed", **about, **told)
        if failure_class(end.leave) == "user":
            log.write("finished", phase="FAILED", stage=stage, code=end.code)
    elif end.class_ == "finished" and stage == "finish":
        log.write("finished", phase="SUCCEEDED")
    try:
        TERMINATION.write_text(message(stage, attempt, node, end))
    except OSError:
        return  # outside of a pod


def main(words: Sequence[str] | None = None) -> int:
    """Entry of the module."""
    parser = argparse.ArgumentParser(prog="trainwright.targets.kubernetes.pod")
    parser.add_argument("stage", choices=("prepare", "train", "finish"))
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--rendezvous", default="")
    parser.add_argument("--again-above-128", action="store_true", help="for operators that stop at codes below 128")
    arguments = parser.parse_args(words)
    try:
        code = run_stage(arguments)
    except TrainwrightError as error:
        print(error, file=sys.stderr)  # noqa: T201
        code = error.exit_code
    except OSError as error:
        where = os.environ.get(RUN_DIR_VARIABLE)
        print(f"{where} cannot be used by user {os.getuid()}: {error}", file=sys.stderr)  # noqa: T201
        print("is it on a claim of the site, and may this user (kubernetes.user) write there?", file=sys.stderr)  # noqa: T201
        code = Exit.UNREACHABLE
    if arguments.again_above_128 and code != 0 and failure_class(code) != "user":
        return code % _STARTED_AGAIN + _STARTED_AGAIN
    return code


if __name__ == "__main__":
    sys.exit(main())
