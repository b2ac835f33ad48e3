"""Inside the job, between two attempts: what to do after a step ended, as one line for the batch script.

Started as ``python -m trainwright.targets.slurm.between RUN_DIR STEP CODE``; ``CODE`` is srun's exit code, or
``lost`` when Slurm took the nodes away and has started the job again. Reads the run's folder, writes one event that
says what happened, and answers ``again SECONDS``, ``requeue``, ``exclude NODES`` or ``stop CODE``. Runs no command of
Slurm: it may be in a container that has none.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trainwright.runs.events import SUPERVISOR
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.failures import Failure, first_failure
from trainwright.runs.failures import first_error as error_in
from trainwright.runs.folder import RunFolder
from trainwright.runs.steps import saved_step
from trainwright.spec.model import Retry
from trainwright.targets.local.policy import Used, decide, failure_class
from trainwright.targets.reasons import Match, earliest_cause, match
from trainwright.targets.slurm.hosts import expand
from trainwright.targets.slurm.record import sound_events

FIRST_ATTEMPT_VARIABLE = "TRAINWRIGHT_FIRST_ATTEMPT"  # of this submission; earlier ones have had their own budgets
_DELAY_SECONDS = 5.0
_CRASH = 70  # as trainwright.training.worker names it: neither the user's error nor a wish to resume
_TOO_OFTEN = 2  # failures after which a node is left out
_TAIL_BYTES = 256 * 1024
_SLURMS_OWN = ("srun:", "slurmstepd")  # how its lines in a log begin


@dataclass(frozen=True)
class Ended:
    """How an attempt ended. ``nodes`` are those that it can be blamed on; ``saved`` the newest checkpoint then."""

    code: int
    class_: str
    saved: int | None
    nodes: tuple[str, ...] = ()


def answer(
    ended: Ended, history: Sequence[Ended], retry: Retry, *, allocated: Sequence[str], stopping: bool, cancelled: bool
) -> str:
    """What the batch script is to do. ``history`` are the earlier ends of this step under this submission."""
    if cancelled:
        return f"stop {ended.code}"
    used, saved = Used(), None
    for one in history:
        again = decide(_counted(one), used, retry, saved_more=one.saved != saved, delay_seconds=_DELAY_SECONDS)
        used, saved = again.used, one.saved
    decision = decide(_counted(ended), used, retry, saved_more=ended.saved != saved, delay_seconds=_DELAY_SECONDS)
    if decision.action == "fail":
        return f"stop {ended.code}"
    bad = often([*history, ended])
    if set(bad) & set(allocated):
        return f"exclude {','.join(bad)}"
    if stopping or ended.code == TrainExit.RESUME_ME:
        return "requeue"  # the allocation ends soon
    return f"again {decision.delay_seconds:.0f}"


def first_error(run: RunFolder, attempt: int, step: str, events: list[dict[str, Any]]) -> Failure | None:
    """``first_failure``, but what srun prints about the end of its tasks is no error: the line before it may be."""
    found = first_failure(run, attempt, step, events)
    if found is None or not found.text.startswith(_SLURMS_OWN):
        return found
    log = run.stage_log(attempt, step)
    rest = error_in("\n".join(line for line in _tail(log) if not line.startswith(_SLURMS_OWN)))
    return rest and replace(rest, log=str(log))


def often(ended: Iterable[Ended]) -> list[str]:
    """Nodes that failed so often that a run had better leave them out."""
    counts = Counter(node for one in ended for node in set(one.nodes))
    return sorted(node for node, count in counts.items() if count >= _TOO_OFTEN)


def combine(codes: Iterable[int], srun: int, failure: Failure | None) -> int:
    """One exit code of a step from those of its nodes; ``srun`` is srun's own.

    When one node fails, the others soon end too: with the code of a lost connection, or, for a script that knows no
    better, with an exception. So an exception decides only when it is more than an echo.
    """
    ended = [code for code in codes if code != 0]
    for telling in (TrainExit.NON_FINITE, TrainExit.HUNG_COLLECTIVE):
        if telling in ended:
            return telling
    crashes = [code for code in ended if failure_class(code) == "infrastructure"]
    errors = [code for code in ended if failure_class(code) == "user"]
    echo = failure is None or failure.echo
    if errors and not (crashes and echo) and not (failure is not None and failure.echo):
        return errors[0]
    if crashes or errors:
        return max(crashes, default=_CRASH)
    if TrainExit.RESUME_ME in ended:
        return TrainExit.RESUME_ME
    return srun or _CRASH  # killed before any node could write its code


def history_of(events: Iterable[dict[str, Any]], step: str, first: int = 0) -> list[Ended]:
    """Earlier ends of a step, as this module has written them."""
    return [
        Ended(int(e["code"]), str(e.get("class", "")), e.get("saved"), tuple(map(str, e.get("nodes") or ())))
        for e in events
        if e.get("rank") == SUPERVISOR
        and e.get("stage") == step
        and "saved" in e
        and "code" in e
        and int(e["attempt"]) >= first
    ]


def known_lines(path: Path) -> list[Match]:
    """Lines of Slurm's own in the end of a log, in order."""
    # only what Slurm's programs print of themselves: a user's own text must not look like it
    own = [line for line in _tail(path) if line.startswith(_SLURMS_OWN)]
    return [found for line in own if (found := match("slurm", line, where="job stdout")) is not None]


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - _TAIL_BYTES))
            return handle.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def blamed(found: Sequence[Match]) -> tuple[str, ...]:
    """The node that failed first, by what srun said; nothing when it names several at once."""
    for one in found:
        lost = one.groups.get("nodes") if one.entry.id == "slurm-log-node-failure" else None
        named = lost or one.groups.get("hosts") or one.groups.get("host")
        if named:
            nodes = expand(named)
            return tuple(nodes) if len(nodes) == 1 or lost else ()
    return ()


def _counted(ended: Ended) -> int:
    """The code that counts for the budgets: what ran out of memory will do so again."""
    return TrainExit.USER_ERROR if ended.class_ == "oom" else ended.code


def _look(
    run: RunFolder, step: str, attempt: int, code: int, events: list[dict[str, Any]]
) -> tuple[Ended, Failure | None]:
    """How an attempt ended that ran to its end."""
    failure = first_error(run, attempt, step, events)
    total = combine(_codes(run, step, attempt), code, failure)
    lines = known_lines(run.stage_log(attempt, step))
    cause = earliest_cause(lines)
    class_ = failure_class(total)
    if class_ != "resume" and cause is not None and cause.reason.class_ in ("oom", "node-lost", "hardware"):
        class_ = cause.reason.class_
    nodes = blamed(lines) if class_ in ("infrastructure", "node-lost", "hardware") else ()
    return Ended(total, class_, saved_step(run), nodes), failure


def _lost(run: RunFolder, step: str, events: list[dict[str, Any]]) -> tuple[int, Ended] | None:
    """The attempt that nobody saw the end of, and how it ended by what is written; None when there is none."""
    ended = {e["attempt"] for e in events if e.get("rank") == SUPERVISOR and e.get("stage") == step and "saved" in e}
    begun = [
        e for e in events if e.get("rank") == SUPERVISOR and e.get("stage") == step and e.get("kind") == "started"
    ]
    if not begun or begun[-1]["attempt"] in ended:
        return None
    attempt = int(begun[-1]["attempt"])
    lines = [*known_lines(run.stage_log(attempt, step)), *known_lines(run.logs / f"slurm-{begun[-1].get('job')}.log")]
    down = [one for one in lines if one.reason.class_ == "node-lost"]
    if down or not any(one.reason.class_ in ("preempted", "timeout") for one in lines):
        # srun tells of every node that fails, as long as its own lives: silence means that this one was lost
        first = expand(str(begun[-1].get("nodes", "")))[:1]
        return attempt, Ended(_CRASH, "node-lost", saved_step(run), blamed(down) if down else tuple(first))
    return attempt, Ended(TrainExit.RESUME_ME, "preempted", saved_step(run))


def _codes(run: RunFolder, step: str, attempt: int) -> list[int]:
    codes = []
    for path in (run.logs / str(attempt)).glob(f"{step}-*.exit"):
        try:
            codes.append(int(path.read_text()))
        except (OSError, ValueError):
            continue
    return codes


def main() -> None:
    """Entry of the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("step")
    parser.add_argument("code")
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--nodes", default="")
    parser.add_argument("--stopping", action="store_true")
    arguments = parser.parse_args()
    run, step = RunFolder(arguments.run), arguments.step
    events = sound_events(run)
    attempt: int = arguments.attempt
    failure: Failure | None = None
    if arguments.code == "lost":
        lost = _lost(run, step, events)
        if lost is None:
            print("again 0")  # noqa: T201
            return
        attempt, ended = lost
    else:
        ended, failure = _look(run, step, attempt, int(arguments.code), events)
    history = history_of(events, step, int(os.environ.get(FIRST_ATTEMPT_VARIABLE, "1")))
    said = answer(
        ended,
        history,
        run.spec().retry,
        allocated=expand(arguments.nodes),
        stopping=arguments.stopping,
        cancelled=run.cancel_request.exists(),
    )
    if said == "requeue" and arguments.code == "lost":
        said = "again 0"  # it has been requeued already
    kind: Literal["restarted", "failed"] = "restarted" if ended.code == TrainExit.RESUME_ME else "failed"
    told = {"exception": failure.text, "line": failure.where, "failing_rank": failure.rank} if failure else {}
    about = {"code": ended.code, "class": ended.class_, "saved": ended.saved, "nodes": list(ended.nodes)}
    run.event_log(attempt, SUPERVISOR).write(
        kind, stage=step, **about, **(told if kind == "failed" else {}), then=said
    )
    print(said)  # noqa: T201


if __name__ == "__main__":
    main()
