"""What the pods of an MPIJob run: sshd on the workers, mpirun on the launcher, and on each node one process between.

``serve`` keeps the container's environment, which ssh sessions do not get, and lets ranks save before it ends.
``launch`` runs mpirun, again while the budgets last: the operator would start a launcher again whatever its exit code
says. ``agent`` is what mpirun starts on each node; it goes on as ``pod`` does everywhere else.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trainwright.errors import InputError, Problem, TrainwrightError
from trainwright.runs.events import read_events
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.failures import Failure
from trainwright.runs.folder import RUN_DIR_VARIABLE, RunFolder, write_atomically
from trainwright.runs.steps import saved_step
from trainwright.spec.model import Retry
from trainwright.targets.kubernetes import pod
from trainwright.targets.kubernetes.attempts import Mark, Member
from trainwright.targets.local.policy import Decision, Used, decide, failure_class

SCRATCH = Path(os.environ.get("TRAINWRIGHT_SCRATCH", "/tmp/trainwright"))
LAUNCHER_VARIABLE = "TRAINWRIGHT_LAUNCHER"  # the same for all launchers of one MPIJob
_DELAY_SECONDS = 5.0
#: What Open MPI sets on the launcher and its processes. Ranks that find it may take themselves for MPI processes.
_MPI_VARIABLES = ("OMPI_", "PMIX_", "PMI_", "ORTE_")


def environment_file() -> Path:
    """Where ``serve`` keeps the container's environment for ``agent``."""
    return SCRATCH / "environment"


def ready_file() -> Path:
    """There as soon as sshd answers: the readiness probe looks for it, and sshd logs no connection without a word."""
    return SCRATCH / "ready"


def agent_file() -> Path:
    """Where ``agent`` leaves its process id for ``serve``."""
    return SCRATCH / "agent.pid"


def sshd(keys: str, port: int, host_key: Path) -> list[str]:
    """sshd in the foreground, for a user that owns nothing outside of its scratch folder."""
    options = [
        f"HostKey={host_key}", f"AuthorizedKeysFile={keys}/authorized_keys", "PidFile=none", "UsePAM=no",
        "StrictModes=no", "PasswordAuthentication=no", "PermitRootLogin=prohibit-password", "MaxStartups=1000",
    ]  # fmt: skip
    return ["/usr/sbin/sshd", "-D", "-e", "-p", str(port), *(word for option in options for word in ("-o", option))]


def mpirun(program: str, nodes: int, agent: Sequence[str], *, root: bool) -> list[str]:
    """mpirun with one process on each node. Its host file is named by a variable that the operator has set."""
    return [
        program,
        *(["--allow-run-as-root"] if root else []),
        "-np", str(nodes), "--map-by", "ppr:1:node",
        "--bind-to", "none",  # else all ranks of a node share one core
        *agent,
    ]  # fmt: skip


def mpirun_environment(keys: str, port: int) -> dict[str, str]:
    """Parameters of mpirun, under the names that Open MPI 4 and 5 read."""
    ssh = (
        f"-i {keys}/id_rsa -p {port} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "
        "-o ConnectionAttempts=30"
    )
    patience = "3600"  # seconds from TERM to KILL: ranks are saving, and the pod's grace period is the limit
    return {
        "OMPI_MCA_plm_rsh_args": ssh,
        "PRTE_MCA_plm_ssh_args": ssh,
        "OMPI_MCA_odls_base_sigkill_timeout": patience,
        "PRTE_MCA_odls_base_sigkill_timeout": patience,
    }


def outcome(marks: Sequence[Mark], attempt: int, mpirun_code: int) -> int:
    """One exit code of an attempt from those that its nodes left; mpirun's own says little more than yes or no."""
    codes = [mark.code for mark in marks if mark.attempt == attempt and mark.ended]
    bad = [code for code in codes if code not in (0, TrainExit.RESUME_ME)]
    users = [code for code in bad if failure_class(code) == "user"]
    if users or bad:
        return (users or bad)[0]
    if TrainExit.RESUME_ME in codes:
        return int(TrainExit.RESUME_ME)
    return 0 if mpirun_code == 0 else pod.CRASH


def follow(
    attempts: Callable[[], tuple[int, int | None]], retry: Retry, pause: Callable[[float], object] = time.sleep,
    stopped: Callable[[], bool] = lambda: False,
) -> int:  # fmt: skip
    """Run attempts until one is the last; ``attempts`` gives the exit code of one and the newest checkpoint then."""
    used, saved = Used(), None
    while True:
        code, now = attempts()
        if stopped():
            return int(TrainExit.RESUME_ME) if code != 0 else 0
        decision: Decision = decide(code, used, retry, saved_more=now != saved, delay_seconds=_DELAY_SECONDS)
        if decision.action != "again":
            return code
        used, saved = decision.used, now
        pause(decision.delay_seconds)


def serve(arguments: argparse.Namespace) -> int:
    """Life of a worker."""
    _check_user()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    environment_file().write_bytes(b"\0".join(f"{k}={v}".encode() for k, v in os.environ.items()))
    environment_file().chmod(0o600)  # secrets are among it
    host_key = SCRATCH / "host_key"
    if not host_key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(host_key)], check=True)
    # sshd refuses to start without it, when it may start as root
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: asked.append(received))
    child = subprocess.Popen(sshd(arguments.keys, arguments.port, host_key))
    _wait_for_port(arguments.port)
    ready_file().touch()
    while child.poll() is None and not asked:
        time.sleep(0.5)
    if asked:
        let_save(agent_file())
        child.terminate()
        child.wait()
        return 0
    return child.returncode or pod.CRASH


def launch(arguments: argparse.Namespace) -> int:
    """Life of the launcher."""
    _check_user()
    run = RunFolder(Path(os.environ[RUN_DIR_VARIABLE]))
    digest = pod.install(run)
    member = Member(run, "train", 0, digest)
    if member.complete():
        return 0
    # the operator starts a launcher again whatever its exit code says: it has to find out that all is over
    end = run.logs / f"launcher-{os.environ.get(LAUNCHER_VARIABLE, 'none')}.end"
    if end.is_file():
        print("an earlier launcher of this job has found that training cannot go on", file=sys.stderr)  # noqa: T201
        return int(end.read_text())
    program = shutil.which("mpirun")
    if program is None:
        what, instead = "has no mpirun", "build it with Open MPI; `trainwright image` writes such a Dockerfile"
        raise InputError([Problem("", field="image", what=what, instead=instead)])
    agent = [sys.executable, "-P", "-m", "trainwright.targets.kubernetes.mpi", "agent"]
    agent += ["--nodes", str(arguments.nodes), "--rendezvous", arguments.rendezvous]
    command = mpirun(program, arguments.nodes, agent, root=os.getuid() == 0)
    environment = {**os.environ, **mpirun_environment(arguments.keys, arguments.port)}
    children: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []

    def on_signal(number: int, _frame: object) -> None:
        asked.append(number)
        if children and children[-1].poll() is None:
            children[-1].send_signal(signal.SIGUSR1)  # mpirun passes this one on, and does not stop for it

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)

    def attempt() -> tuple[int, int | None]:
        before = max((mark.attempt for mark in member.marks()), default=0)
        children.append(subprocess.Popen(command, env=environment))
        code = children[-1].wait()
        marks = [mark for mark in member.marks() if mark.attempt > before]
        return outcome(marks, max((mark.attempt for mark in marks), default=0), code), saved_step(run)

    code = follow(attempt, run.spec().retry, stopped=lambda: bool(asked))
    if failure_class(code) == "user":
        write_atomically(end, str(code))
    _tell(run, code)
    return code


def agent(arguments: argparse.Namespace) -> int:
    """What runs on each node: the training stage of ``pod``, in the environment of the container."""
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    os.environ.update(container_environment(environment_file().read_bytes()))
    for name in [name for name in os.environ if name.startswith(_MPI_VARIABLES)]:
        del os.environ[name]
    agent_file().write_text(str(os.getpid()))
    words = ["train", "--nodes", str(arguments.nodes), "--node-rank", rank, "--rendezvous", arguments.rendezvous]
    code = pod.main(words)
    # mpirun ends all others when one leaves with an error: those that are saving must not be cut off
    return 0 if code == TrainExit.RESUME_ME else code


def container_environment(kept: bytes) -> Mapping[str, str]:
    """The environment that ``serve`` has kept."""
    entries = (entry.decode().partition("=") for entry in kept.split(b"\0") if entry)
    return {name: value for name, _, value in entries}


def _tell(run: RunFolder, code: int) -> None:
    """The launcher's termination message: what the node where it began has written into the events."""
    failed = [e for e in read_events(run.events) if e.get("kind") == "failed" and "saved" in e]
    told = [e for e in failed if e.get("stage") == "train"]
    last = told[-1] if told and code != 0 else {}
    failure = None
    if last.get("exception"):
        failure = Failure(str(last["exception"]), str(last.get("line") or ""), last.get("failing_rank"))
    class_ = str(last.get("class") or failure_class(code))
    ended = pod.Ended(int(last.get("code", code)), code, class_, failure, saved_step(run))
    try:
        pod.TERMINATION.write_text(pod.message("train", int(last.get("attempt", 1)), 0, ended))
    except OSError:
        return


def _wait_for_port(port: int, seconds: float = 60.0) -> None:
    """Until sshd answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            time.sleep(0.2)


def let_save(file: Path) -> None:
    """Ask the agent of this node to save, and wait until it has ended."""
    try:
        pid = int(file.read_text())
        os.kill(pid, signal.SIGTERM)
        while True:
            os.kill(pid, 0)
            time.sleep(0.5)
    except (OSError, ValueError):
        return  # none is running, or it has ended


def _check_user() -> None:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        what = f"knows no user {os.getuid()}, and ssh refuses to work without one"
        instead = f"useradd --uid {os.getuid()} trainwright in its Dockerfile, as `trainwright image` writes it"
        raise InputError([Problem("", field="image", what=what, instead=instead)]) from None


def main() -> int:
    """Entry of the module."""
    parser = argparse.ArgumentParser(prog="trainwright.targets.kubernetes.mpi")
    parser.add_argument("role", choices=("serve", "launch", "agent"))
    parser.add_argument("--keys", default="/root/.ssh")
    parser.add_argument("--port", type=int, default=2222)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--rendezvous", default="")
    arguments = parser.parse_args()
    roles = {"serve": serve, "launch": launch, "agent": agent}
    try:
        return roles[arguments.role](arguments)
    except TrainwrightError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
