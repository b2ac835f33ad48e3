"""What a Slurm answers, whoever is asked: jobs and partitions as plain values, and the errors that fit a refusal.

``Queue`` is what the target needs of a Slurm. ``client`` answers by Slurm's commands, ``rest`` by slurmrestd; the
JSON of both has the same shapes, which differ between releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainwright.errors import AnswerNo, InputError, Problem, SystemUnreachable, TrainwrightError
from trainwright.targets.reasons import explain
from trainwright.targets.slurm.transport import Transport

_NO_TIME = 4294967294  # how Slurm writes that there is none
FINAL = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "REVOKED", "TIMEOUT",
})  # fmt: skip
#: The controller is restarting, busy or asks for patience: the same call works a moment later.
PASSING = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection refused|Zero Bytes were transmitted|"
    r"Rate limit exceeded|Communication connection failure|Unexpected message received|"
    r"temporarily unavailable|Connection reset"
)


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


class Queue(Protocol):
    """One Slurm. ``patience`` is how many seconds a controller that does not answer is waited for.

    ``transport`` reaches the folder that the nodes see. Without an answer every method raises SystemUnreachable.
    """

    patience: float

    @property
    def transport(self) -> Transport:
        """Where the run's folder is reached."""

    def anew(self) -> Queue:
        """The same Slurm, with the patience of somebody who has not seen it answer yet."""

    def version(self) -> tuple[int, ...]:
        """Version as numbers; empty when it cannot be told."""

    def submit(
        self, script: str, *, folder: str, name: str, dependency: str | None, exclude: Sequence[str],
        environment: Mapping[str, str], cwd: str | None,
    ) -> str:  # fmt: skip
        """Queue the script at a path to run in ``folder``; returns the job's id. A refusal is told by its reason."""

    def try_out(self, script: str, *, name: str) -> str:
        """Let Slurm check the text of a script and queue nothing; what it says. A refusal is told by its reason."""

    def partitions(self) -> list[Partition]:
        """Every partition with what its nodes have, a row for each kind of node in it."""

    def jobs(self, ids: Iterable[str]) -> dict[str, Job]:
        """What Slurm knows of these jobs, by id; the ones that it has forgotten are missing."""

    def named(self, names: Iterable[str]) -> list[Job]:
        """Own jobs of these names that are queued or run."""

    def cancel(self, ids: Iterable[str]) -> None:
        """End jobs: SIGTERM, and SIGKILL after the cluster's KillWait. Jobs that are gone already are no error."""

    def stop(self, ids: Iterable[str]) -> None:
        """Ask the ranks of jobs to save and leave; the jobs themselves are not ended."""

    def cluster(self) -> str:
        """Name of the cluster, or ``slurm`` when it is not told."""


def job_of_json(values: Mapping[str, Any]) -> Job:
    """One job of ``squeue --json``, of any release: plain values up to 23.02, sets and objects after that."""
    state = values["job_state"]
    states = [state] if isinstance(state, str) else list(state)
    code, number = _exit(values.get("exit_code"))
    reason = str(values.get("state_description") or values.get("state_reason") or "")
    return Job(
        id=str(values["job_id"]),
        name=str(values.get("name") or ""),
        state=state_name("COMPLETING" if "COMPLETING" in states else states[0]),
        reason="" if reason == "None" else reason,
        nodes=str(values.get("nodes") or ""),
        exit_code=code,
        signal=number,
        submitted=_moment(values.get("submit_time")),
        started=_moment(values.get("start_time")),
        ended=_moment(values.get("end_time")),
        restarts=integer(values.get("restart_cnt")),
    )


def job_of_account_json(values: Mapping[str, Any]) -> Job:
    """One job of slurmdbd's JSON, of any release."""
    state, times = values["state"]["current"], values.get("time") or {}
    code, number = _exit(values.get("exit_code"))
    state = state_name(state if isinstance(state, str) else state[0])
    if state == "FAILED" and not code and not number:
        code = None  # 22.05 tells 0 of every job
    return Job(
        id=str(values["job_id"]),
        name=str(values.get("name") or ""),
        state=state,
        nodes=str(values.get("nodes") or "").replace("None assigned", ""),
        exit_code=code,
        signal=number,
        submitted=_moment(times.get("submission")),
        started=_moment(times.get("start")),
        ended=_moment(times.get("end")),
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
    return float(number) if number and number < _NO_TIME else None


def state_name(text: str) -> str:
    """``CANCELLED by 1000`` is CANCELLED, ``OUT_OF_ME+`` is OUT_OF_MEMORY."""
    word = text.split()[0] if text.split() else "UNKNOWN"
    return next((state for state in FINAL if word.endswith("+") and state.startswith(word[:-1])), word)


def integer(value: Any) -> int | None:
    """A whole number, or None for what is none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def message(text: str) -> str:
    """What was said, without who says it."""
    return re.sub(r"^(?:\w+: )?(?:error: |fatal: )", "", text.strip())


def unanswered(command: str, said: str) -> SystemUnreachable:
    """A query that failed; ``said`` is the last word on it."""
    way_out = explain("slurm", said).next_step or "`scontrol ping` shows whether the controller lives"
    return SystemUnreachable(f"{command}: {message(said)}", way_out)


def refused(lines: Sequence[str], script: str, who: str = "sbatch") -> TrainwrightError:
    """A refusal, in the lines of ``who`` refused, as the error that fits: bad input, the answer no, or no access."""
    text = "\n".join(lines)
    reason = explain("slurm", text, where="sbatch")
    last = message(lines[-1])
    sentence = reason.sentence if reason.class_ != "unknown" or not reason.id.endswith("unknown") else last
    said = f"Slurm refuses the job: {sentence} ({who}: {last})"
    if reason.class_ in ("network", "permission") or "denied" in text:
        return SystemUnreachable(said, reason.next_step)
    if reason.class_ == "config":
        return InputError([Problem(script, what=said, instead=reason.next_step)])
    return AnswerNo(said, reason.next_step)
