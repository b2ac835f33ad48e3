"""Start the ranks of this node by torchrun's elastic API: the built-in worker, or the user's own script.

Takes a run's folder and this node's place; gives the exit code of ``trainwright train``. Signals reach every rank
and are waited for; each rank's output goes to a file of its own. Imports torch only when called.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.errors import InputError, Problem
from trainwright.models.refit import refit
from trainwright.runs.events import read_events
from trainwright.runs.exit_codes import TrainExit, exit_words
from trainwright.runs.failures import failures_of_ranks, first_error, first_failure, tail
from trainwright.runs.folder import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE, RunFolder
from trainwright.spec.model import RunSpec
from trainwright.training.hang import HangWatch
from trainwright.training.network_check import NetworkCheck
from trainwright.training.signals import STOP_SIGNALS
from trainwright.training.worker import CRASH, PROFILE_VARIABLE

#: Passed on to the ranks. torchrun by itself knows neither USR1 (what Slurm sends ahead of a time limit) …
FORWARDED = ",".join(number.name for number in STOP_SIGNALS)
#: … nor patience: after 30 seconds it would kill ranks that are saving. Whoever sent the signal sets the real limit.
SHUTDOWN_SECONDS = int(os.environ.get("TRAINWRIGHT_SHUTDOWN_SECONDS", "3600"))


@dataclass(frozen=True)
class Place:
    """This node among the nodes of a run. ``rendezvous`` is ``host:port`` of the first one."""

    nodes: int = 1
    node_rank: int = 0
    rendezvous: str | None = None
    processes: int | None = None


def launch(run_dir: Path, place: Place | None = None, *, profile: str | None = None) -> int:
    """Start this node's ranks and wait for them. Gives an exit code as ``runs.exit_codes.TrainExit`` names them."""
    run = RunFolder(run_dir.absolute())
    spec = run.spec()
    place = place or Place(nodes=spec.compute.nodes)
    processes = place.processes or processes_per_node(run, spec, place.nodes)
    if spec.train is None:
        refit(run.plan().layout, place.nodes * processes, spec.global_batch_size)  # or it says what would be right
    attempt = int(os.environ.get(ATTEMPT_VARIABLE, "1"))
    os.environ[RUN_DIR_VARIABLE], os.environ[ATTEMPT_VARIABLE] = str(run.root), str(attempt)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads_per_process(processes)))
    if profile:
        os.environ[PROFILE_VARIABLE] = profile
    network = NetworkCheck(run.logs / str(attempt), os.environ)
    os.environ.update(network.variables())
    seconds = spec.compute.collective_timeout.seconds
    hang = HangWatch(run, attempt, seconds, place.nodes, place.node_rank)
    os.environ.update(hang.variables())
    for name, value in hang.recorder().items():
        os.environ.setdefault(name, value)
    try:
        ended, stopped = _run_agent(run, spec, place, processes, attempt, network, hang)
    finally:
        hang.close()
    code = combine(ended, stopped)
    if hang.told:
        code = TrainExit.HUNG_COLLECTIVE
        for told in hang.told:  # what the others saw of it is that their wait timed out
            about = {"class": "network", "code": int(code), "exception": told.sentence, "line": told.at}
            run.event_log(attempt, told.rank).write("failed", **about, cause=True)
    if network.told:  # its ranks were killed for it, and would be again
        code = TrainExit.USER_ERROR
        about = {"class": "network", "code": int(code), "exception": network.told, "line": ""}
        run.event_log(attempt, place.node_rank * processes).write("failed", **about)
    if code not in (TrainExit.FINISHED, TrainExit.RESUME_ME):
        first_rank = place.node_rank * processes
        _report_silent(run, attempt, {first_rank + rank: end for rank, end in ended.items()}, program(spec))
        _tell(run, attempt, code)
    return code


def processes_per_node(run: RunFolder, spec: RunSpec, nodes: int) -> int:
    """Ranks on this node: the layout's world size over the nodes. Raises InputError when that is no whole number."""
    world = run.plan().layout.world_size
    if world % nodes:
        what = f"is {nodes} but the layout has {world} ranks"
        raise InputError([Problem("spec.yaml", field="compute.nodes", what=what, instead="plan again")])
    return world // nodes


def threads_per_process(processes: int) -> int:
    """Cores of this machine that this process may use ÷ processes, at least one."""
    return max(1, len(os.sched_getaffinity(0)) // processes)


def command(spec: RunSpec) -> tuple[str, ...]:
    """What every rank runs: the built-in worker, or the user's script with its arguments byte for byte."""
    if spec.train is not None:
        return (sys.executable, "-u", spec.train.script, *spec.train.args)
    # -P: a file such as random.py where the run was started must not stand in for a library
    return (sys.executable, "-u", "-P", "-m", "trainwright.training.worker")


def program(spec: RunSpec) -> str:
    """What a person calls that which every rank runs."""
    return Path(spec.train.script).name if spec.train is not None else "the trainer"


def combine(codes: dict[int, int], stopped: bool = False) -> int:
    """One exit code for the node from those of its ranks (negative: ended by that signal).

    A rank that failed by itself says more than those that the launcher ended because of it: they save and leave with
    75, which would start a run again that can only fail again. ``stopped``: the launcher itself was asked to stop;
    then one rank that saved speaks for all, and errors of the others are of connections that ended.
    """
    ended = [code for code in codes.values() if code != 0]
    if not ended:
        return TrainExit.FINISHED
    resume: tuple[int, ...] = (TrainExit.RESUME_ME,) if stopped else ()
    telling: tuple[int, ...] = (TrainExit.NON_FINITE, TrainExit.HUNG_COLLECTIVE, *resume, TrainExit.USER_ERROR)
    for code in telling:
        if code in ended:
            return code
    failed = [code for code in ended if code != TrainExit.RESUME_ME]
    return next((code for code in failed if code > 0), CRASH) if failed else TrainExit.RESUME_ME


def obeyed(codes: dict[int, int]) -> dict[int, int]:
    """Exit codes after a request to stop: whoever died of that signal did as told.

    The trainer takes over these signals before its first step, a script of the user's perhaps never. A rank that
    memory or the kernel has killed did something else.
    """
    told = {-number for number in STOP_SIGNALS}
    return {rank: TrainExit.RESUME_ME if code in told else code for rank, code in codes.items()}


def _run_agent(
    run: RunFolder,
    spec: RunSpec,
    place: Place,
    processes: int,
    attempt: int,
    network: NetworkCheck,
    hang: HangWatch,
) -> tuple[dict[int, int], bool]:
    """Exit codes by local rank, and whether a signal asked this launcher to stop."""
    from torch.distributed.elastic.agent.server.api import RunResult, WorkerSpec, WorkerState
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.elastic.rendezvous import registry as rendezvous

    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = FORWARDED
    # torchrun opens standard output and error apart and writes each from its own place: in one file they overwrite
    # each other. So the rank joins them itself; exec keeps its pid, and "$@" its arguments byte for byte.
    entrypoint, *arguments = ("/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *command(spec))
    static = place.nodes > 1
    if static and not place.rendezvous:
        what, instead = (
            f"is missing for {place.nodes} nodes",
            "give HOST:PORT of the first node, the same on every node",
        )
        raise InputError([Problem("trainwright train", field="--rendezvous", what=what, instead=instead)])
    host, _, port = (place.rendezvous or "127.0.0.1:0").rpartition(":")
    parameters = RendezvousParameters(
        backend="static" if static else "c10d",
        endpoint=f"{host}:{port}" if static else "127.0.0.1:0",
        run_id=f"{run.run_id}-{attempt}",
        min_nodes=place.nodes,
        max_nodes=place.nodes,
        local_addr=None if static else "127.0.0.1",
        timeout=900,
        **({"rank": place.node_rank} if static else {}),
    )

    class Agent(LocalElasticAgent):  # type: ignore[misc]  # torch is not typed here
        """Ends the ranks when they hang, and when they do not use the network that they should."""

        def _monitor_workers(self, worker_group: Any) -> Any:
            if self._hangs(worker_group):
                self._pcontext.close(signal.SIGKILL)  # whoever still waits will never go on, and cannot save
                return RunResult(state=WorkerState.FAILED)
            result = super()._monitor_workers(worker_group)
            if result.state == WorkerState.HEALTHY and network.look():
                self._pcontext.close(signal.SIGKILL)  # nothing is trained yet that could be saved
                return RunResult(state=WorkerState.FAILED)
            return result

        def _hangs(self, worker_group: Any) -> bool:
            ranks = {worker.local_rank: worker.global_rank for worker in worker_group.workers}
            handlers = self._pcontext.subprocess_handlers if self._pcontext else {}
            codes = {ranks[local]: handler.proc.poll() for local, handler in handlers.items()}
            pids = {ranks[local]: handler.proc.pid for local, handler in handlers.items()}
            return hang.look(codes, pids, place.nodes * processes)

    agent = Agent(
        WorkerSpec(
            role="rank",
            local_world_size=processes,
            entrypoint=entrypoint,
            # the agent takes arguments for templates: ${local_rank} would be replaced, and $$ become $
            args=tuple(argument.replace("$", "$$") for argument in arguments),
            rdzv_handler=rendezvous.get_rendezvous_handler(parameters),
            max_restarts=0,  # restarts are the supervisor's or the scheduler's: they know budgets and reasons
            monitor_interval=0.1,
            master_addr=host if static else None,
            master_port=int(port) if static else None,
            local_addr=None if static else "127.0.0.1",
        ),
        logs_specs=_rank_logs(run, attempt),
        start_method="spawn",
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    stopped = False
    try:
        agent.run()
    except SignalException:
        stopped = True
    codes = _exit_codes(agent, processes)
    return (obeyed(codes) if stopped else codes), stopped


def _exit_codes(agent: Any, processes: int) -> dict[int, int]:  # Any: torch is not typed here
    """Exit codes of ended processes. The agent's result lacks them when a signal ended the wait."""
    context = agent._pcontext
    handlers = getattr(context, "subprocess_handlers", {})
    if not handlers:
        return dict.fromkeys(range(processes), CRASH)
    return {rank: CRASH if (code := handler.proc.poll()) is None else code for rank, handler in handlers.items()}


def _rank_logs(run: RunFolder, attempt: int) -> Any:  # Any: the class exists only once torch is imported
    from torch.distributed.elastic.multiprocessing import Std
    from torch.distributed.elastic.multiprocessing.api import LogsDest, LogsSpecs

    class RankLogs(LogsSpecs):  # type: ignore[misc]
        """Standard output and error of each rank, in order, in one file."""

        def reify(self, envs: dict[int, dict[str, str]]) -> Any:
            files = {}
            for local_rank, variables in envs.items():
                path = run.rank_log(attempt, int(variables["RANK"]))
                path.parent.mkdir(parents=True, exist_ok=True)
                files[local_rank] = str(path)
            return LogsDest(
                stdouts=files,
                stderrs=dict.fromkeys(files, ""),
                tee_stdouts={},
                tee_stderrs={},
                error_files={rank: f"{path}.error" for rank, path in files.items()},
            )

        @property
        def root_log_dir(self) -> str:
            return str(run.logs)

    return RankLogs(redirects=Std.OUT)


def _report_silent(run: RunFolder, attempt: int, codes: dict[int, int], what: str) -> None:
    """Report the ends of ranks, by global rank, when none of them has said why: killed, or left with a bare code.

    Ranks that the launcher ended because of another are no cause.
    """
    failed = failures_of_ranks(run, attempt, read_events(run.events))
    if any(not failure.echo for failure in failed):
        return
    told = {failure.rank for failure in failed}  # what these saw of another's end is no silence
    for rank, code in sorted(codes.items()):
        if rank in told or code in (TrainExit.FINISHED, TrainExit.RESUME_ME, -signal.SIGTERM):
            continue
        if code < 0:
            why = "; out of memory, or somebody killed it" if code == -signal.SIGKILL else ""
        else:
            last = first_error(tail(run.rank_log(attempt, rank)))
            why = f"; its last words: {last.text}" if last else ", and its log is empty"
        text = f"{what} {exit_words(code)}{why}"
        kind = "unknown" if code < 0 else "user-error"
        run.event_log(attempt, rank).write("failed", **{"class": kind}, code=code, exception=text, line="")


def _tell(run: RunFolder, attempt: int, code: int) -> None:
    """The first failing rank's first error, last on the screen."""
    failure = first_failure(run, attempt, "train", read_events(run.events))
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if failure is None:
        print(f"training ended with {name}; see {run.logs / str(attempt)}", file=sys.stderr)  # noqa: T201
        return
    rank = f"rank {failure.rank}: " if failure.rank is not None else ""
    at = f" ({failure.where})" if failure.where else ""
    # the error comes last: whoever reads the end of this log must find it there
    print(f"log: {failure.log}\n{rank}{failure.text}{at}", file=sys.stderr)  # noqa: T201
