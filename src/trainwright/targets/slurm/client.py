"""Slurm's commands and what they print. The only file that runs sbatch, squeue, sacct, scancel and scontrol.

Takes and gives plain values. One query answers for many jobs. Works without accounting: then jobs are known for as
long as the controller remembers them (MinJobAge, five minutes unless the site says otherwise).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainwright.errors import AnswerNo, InputError, Problem, SystemUnreachable, TrainwrightError
from trainwright.facts.versions import parts
from trainwright.targets.reasons import explain
from trainwright.targets.slurm.transport import Done, Transport, last_line

FINAL = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "REVOKED", "TIMEOUT",
})  # fmt: skip
#: The controller is restarting, busy or asks for patience: the same call works a moment later.
_PASSING = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection refused|Zero Bytes were transmitted|"
    r"Rate limit exceeded|Communication connection failure|Unexpected message received|"
    r"temporarily unavailable|Connection reset"
)
_NO_ACCOUNTING = re.compile(
    r"accounting storage is disabled|Problem talking to the database|slurmdbd|slurm_persist_conn", re.I
)
_FIELDS = "%i|%T|%r|%N|%S|%e|%V|%j"
_EPOCH = {"SLURM_TIME_FORMAT": "%s"}  # times as seconds since the epoch, whatever the shell's locale
_LONGEST_PAUSE = 8.0


@dataclass(frozen=True)
class Job:
    """One job as Slurm tells it. Times are seconds since the epoch; what it did not tell is None or empty."""

    id: str
    name: str
    state: str
    reason: str = ""
    nodes: str = ""
    exit_code: int | None = None
    signal: int | None = None
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    restarts: int | None = None

    @property
    def final(self) -> bool:
        """True when Slurm does nothing more with it."""
        return self.state in FINAL


@dataclass(frozen=True)
class Partition:
    """Equal nodes of one partition. ``time_limit`` as Slurm writes it; ``gres`` such as ``gpu:a100:8``."""

    name: str
    up: bool
    time_limit: str
    nodes: int
    gres: str
    state: str


class Client:
    """Slurm behind a transport. ``patience`` is how many seconds a controller that does not answer is waited for."""

    def __init__(
        self, transport: Transport, *, patience: float = 20.0, sleep: Callable[[float], object] = time.sleep
    ):
        self.transport = transport
        self.patience = patience
        self._sleep = sleep
        self._version: tuple[int, ...] | None = None
        self._json = True
        self._accounting = True

    def version(self) -> tuple[int, ...]:
        """Version of the commands, as numbers; empty when it cannot be told."""
        if self._version is None:
            done = self.transport.run(["sbatch", "--version"])
            found = re.search(r"(\d+(?:\.\d+)+)", done.out)
            self._version = parts(found[1]) if found else ()
        return self._version

    def submit(
        self, script: str, *, folder: str, name: str, dependency: str | None, exclude: Sequence[str],
        environment: Mapping[str, str], cwd: str | None,
    ) -> str:  # fmt: skip
        """Queue a script to run in ``folder``; returns the job's id. A refusal is told by its reason."""
        argv = ["sbatch", "--parsable", f"--chdir={folder}", f"--job-name={name}"]
        argv += [f"--dependency={dependency}"] if dependency else []
        argv += [f"--exclude={','.join(exclude)}"] if exclude else []
        # never tried again by itself: it may have been accepted before the answer was lost
        done = self.transport.run([*argv, script], environment=environment, cwd=cwd, seconds=120)
        if done.code != 0:
            raise _refused(done, script)
        found = re.match(r"(\d+)", last_line(done.out))
        if found is None:
            way_out = f"look for the job with: squeue --name={name}"
            raise SystemUnreachable(f"sbatch answered {last_line(done.out)!r}, which is no job id", way_out)
        return found[1]

    def try_out(self, script: str, *, name: str) -> str:
        """Let Slurm check the text of a script and queue nothing; what it says. A refusal is told by its reason."""
        done = self.transport.run(["sbatch", "--test-only"], stdin=script.encode(), seconds=120)
        if done.code != 0:
            raise _refused(done, name)
        return _message(last_line(done.err) or last_line(done.out)).removeprefix("sbatch: ")

    def partitions(self) -> list[Partition]:
        """Every partition with what its nodes have, a row for each kind of node in it."""
        done = self._asked(["sinfo", "--noheader", "--all", "--format=%R|%a|%l|%D|%G|%c|%m|%T"])
        if done.code != 0:
            raise _unanswered("sinfo", done)
        rows = [line.split("|") for line in done.out.splitlines() if line.count("|") == 7]
        return [
            Partition(name, up == "up", limit, _int(nodes) or 0, gres, state.rstrip("*~#%$@^-+"))
            for name, up, limit, nodes, gres, _, _, state in rows
        ]

    def jobs(self, ids: Iterable[str]) -> dict[str, Job]:
        """What Slurm knows of these jobs, by id; the ones that it has forgotten are missing. One or two queries."""
        wanted = sorted({*ids}, key=int)
        if not wanted:
            return {}
        found = {job.id: job for job in self._squeue(f"--jobs={','.join(wanted)}") if job.id in set(wanted)}
        vague = [i for i in wanted if i not in found or (found[i].final and found[i].exit_code is None)]
        for id_, job in self._sacct(vague).items():
            here = found.get(id_)
            if here is None or here.final:
                known = {"reason": here.reason, "restarts": here.restarts} if here else {}
                found[id_] = replace(job, **known)  # type: ignore[arg-type]  # a reason and a count, as above
        return found

    def named(self, names: Iterable[str]) -> list[Job]:
        """Own jobs of these names that are queued or run."""
        return [job for job in self._squeue("--me", f"--name={','.join(names)}", live=True) if not job.final]

    def cancel(self, ids: Iterable[str]) -> None:
        """End jobs: SIGTERM, and SIGKILL after the cluster's KillWait. Jobs that are gone already are no error."""
        self._scancel(*ids)

    def signal(self, ids: Iterable[str], number: str) -> None:
        """Send a signal to the steps of jobs, not to their batch scripts."""
        self._scancel(f"--signal={number}", *ids)

    def cluster(self) -> str:
        """Name of the cluster, or ``slurm`` when it is not told."""
        done = self._asked(["scontrol", "show", "config"])
        found = re.search(r"^ClusterName\s*=\s*(\S+)", done.out, re.M)
        return found[1] if found else "slurm"

    def _scancel(self, *arguments: str) -> None:
        done = self._asked(["scancel", *arguments])
        gone = re.compile(r"Invalid job id|already completing or completed|not running|no steps", re.I)
        wrong = [line for line in done.err.splitlines() if line.strip() and not gone.search(line)]
        if done.code != 0 and wrong:
            raise SystemUnreachable(
                f"scancel: {_message(wrong[-1])}", "only who submitted a job, or an operator, may end it"
            )

    def _squeue(self, *which: str, live: bool = False) -> list[Job]:
        states = () if live else ("--states=all",)
        if self._json and self._filters_json():
            done = self._asked(["squeue", "--json", *states, *which], environment=_EPOCH)
            if done.code == 0:
                try:
                    return [job_of_json(job) for job in json.loads(done.out)["jobs"]]
                except (ValueError, KeyError, TypeError):
                    pass
            if "Invalid job id" in done.err:
                return []
            self._json = False  # its plugins are an own package on some distributions
        done = self._asked(["squeue", "--noheader", f"--format={_FIELDS}", *states, *which], environment=_EPOCH)
        if done.code != 0 and "Invalid job id" not in done.err:
            raise _unanswered("squeue", done)
        return [job_of_line(line) for line in done.out.splitlines() if line.count("|") >= 7]

    def _filters_json(self) -> bool:
        """--json came with 21.08; from 23.11 on it printed every job of the cluster until 24.05 mended that."""
        version = self.version()
        return (21, 8) <= version < (23, 11) or version >= (24, 5, 1)

    def _sacct(self, ids: Sequence[str]) -> dict[str, Job]:
        # text, not JSON: that of 22.05 shows exit code 0 for failed jobs
        if not ids or not self._accounting:
            return {}
        fields = "JobIDRaw,State,ExitCode,NodeList,Submit,Start,End,JobName"
        argv = [
            "sacct",
            "--allocations",
            "--noheader",
            "--parsable2",
            f"--format={fields}",
            f"--jobs={','.join(ids)}",
        ]
        try:
            done = self._asked(argv, environment=_EPOCH)
        except SystemUnreachable:
            return {}
        if done.code != 0 or _NO_ACCOUNTING.search(done.err):
            self._accounting = not re.search("is disabled", done.err)
            return {}
        return {job.id: job for line in done.out.splitlines() if (job := job_of_account(line)) is not None}

    def _asked(self, argv: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Done:
        """Run a query, again while the controller is away, at longer and longer intervals."""
        end, pause = time.monotonic() + self.patience, 0.5
        while True:
            done = self.transport.run(argv, environment=environment)
            if done.code == 0 or not _PASSING.search(done.err):
                return done
            if time.monotonic() + pause > end:
                raise _unanswered(argv[0], done)
            self._sleep(pause)
            pause = min(pause * 1.7, _LONGEST_PAUSE)


def job_of_line(line: str) -> Job:
    """One line of ``squeue --format`` as this file asks for it."""
    id_, state, reason, nodes, start, end, submit, name = line.split("|", 7)
    reason = "" if reason in ("None", "N/A") else reason
    return Job(id_, name, _state(state), reason, nodes, None, None, _time(submit), _time(start), _time(end))


def job_of_account(line: str) -> Job | None:
    """One line of ``sacct --parsable2`` as this file asks for it; None for anything else."""
    fields = line.split("|", 7)
    if len(fields) != 8 or not fields[0].isdigit():
        return None
    id_, state, codes, nodes, submit, start, end, name = fields
    code, _, number = codes.partition(":")
    nodes = "" if nodes == "None assigned" else nodes
    return Job(
        id_, name, _state(state), "", nodes, _int(code), _int(number) or None, _time(submit), _time(start), _time(end)
    )


def job_of_json(values: Mapping[str, Any]) -> Job:
    """One job of ``squeue --json``, of any release: plain values up to 23.02, sets and objects after that."""
    state = values["job_state"]
    states = [state] if isinstance(state, str) else list(state)
    code, number = _exit(values.get("exit_code"))
    reason = str(values.get("state_description") or values.get("state_reason") or "")
    return Job(
        id=str(values["job_id"]),
        name=str(values.get("name") or ""),
        state=_state("COMPLETING" if "COMPLETING" in states else states[0]),
        reason="" if reason == "None" else reason,
        nodes=str(values.get("nodes") or ""),
        exit_code=code,
        signal=number,
        submitted=_moment(values.get("submit_time")),
        started=_moment(values.get("start_time")),
        ended=_moment(values.get("end_time")),
        restarts=_int(values.get("restart_cnt")),
    )


def _exit(value: Any) -> tuple[int | None, int | None]:
    """Exit code and signal: a wait status up to 23.02, an object since."""
    if isinstance(value, int):
        return value >> 8, (value & 0x7F) or None
    if not isinstance(value, Mapping):
        return None, None
    number = value.get("signal")
    identity = number.get("id", number.get("signal_id")) if isinstance(number, Mapping) else None
    return _number(value.get("return_code")), _number(identity) or None


def _number(value: Any) -> int | None:
    if isinstance(value, Mapping):
        return int(value["number"]) if value.get("set") else None
    return value if isinstance(value, int) else None


def _moment(value: Any) -> float | None:
    number = _number(value)
    return float(number) if number else None


def _state(text: str) -> str:
    """``CANCELLED by 1000`` is CANCELLED, ``OUT_OF_ME+`` is OUT_OF_MEMORY."""
    word = text.split()[0] if text.split() else "UNKNOWN"
    return next((state for state in FINAL if word.endswith("+") and state.startswith(word[:-1])), word)


def _time(text: str) -> float | None:
    return float(text) if text.isdigit() and int(text) > 0 else None


def _int(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _message(text: str) -> str:
    return re.sub(r"^(?:\w+: )?(?:error: |fatal: )", "", text.strip())


def _unanswered(command: str, done: Done) -> SystemUnreachable:
    text = last_line(done.err)
    known = explain("slurm", text)
    way_out = known.next_step or "`scontrol ping` shows whether the controller lives"
    return SystemUnreachable(f"{command}: {_message(text)}", way_out)


def _refused(done: Done, script: str) -> TrainwrightError:
    """sbatch's refusal as the error that fits: bad input, the answer no, or no access."""
    lines = [line for line in done.err.splitlines() if "error:" in line or "fatal:" in line] or [last_line(done.err)]
    text = "\n".join(lines)
    reason = explain("slurm", text, where="sbatch")
    sentence = (
        reason.sentence if reason.class_ != "unknown" or not reason.id.endswith("unknown") else _message(lines[-1])
    )
    said = f"Slurm refuses the job: {sentence} (sbatch: {_message(lines[-1])})"
    if reason.class_ in ("network", "permission") or "denied" in text:
        return SystemUnreachable(said, reason.next_step)
    if reason.class_ == "config":
        return InputError([Problem(script, what=said, instead=reason.next_step)])
    return AnswerNo(said, reason.next_step)
