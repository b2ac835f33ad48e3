"""A Slurm asked by its commands. The only file that runs sbatch, squeue, sacct, scancel, scontrol and sinfo.

Takes and gives plain values. One query answers for many jobs. Works without accounting: then jobs are known for as
long as the controller remembers them (MinJobAge, five minutes unless the site says otherwise).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from trainwright.errors import SystemUnreachable, TrainwrightError
from trainwright.facts.versions import parts
from trainwright.targets.slurm.queue import (
    PASSING,
    Job,
    Partition,
    integer,
    job_of_json,
    message,
    refused,
    state_name,
    unanswered,
)
from trainwright.targets.slurm.transport import Done, Transport, last_line

_NO_ACCOUNTING = re.compile(
    r"accounting storage is disabled|Problem talking to the database|slurmdbd|slurm_persist_conn", re.I
)
_FIELDS = "%i|%T|%r|%N|%S|%e|%V|%j"
_EPOCH = {"SLURM_TIME_FORMAT": "%s"}  # times as seconds since the epoch, whatever the shell's locale
_LONGEST_PAUSE = 8.0


class Client:
    """Slurm's commands behind a transport; see ``queue.Queue``."""

    def __init__(
        self, transport: Transport, *, patience: float = 20.0, sleep: Callable[[float], object] = time.sleep
    ):
        self.transport = transport
        self.patience = patience
        self._sleep = sleep
        self._version: tuple[int, ...] | None = None
        self._json = True
        self._accounting = True

    def anew(self) -> Client:
        """See ``Queue.anew``."""
        return Client(self.transport)

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
        return message(last_line(done.err) or last_line(done.out)).removeprefix("sbatch: ")

    def partitions(self) -> list[Partition]:
        """Every partition with what its nodes have, a row for each kind of node in it."""
        done = self._asked(["sinfo", "--noheader", "--all", "--format=%R|%a|%l|%D|%G|%c|%m|%T"])
        if done.code != 0:
            raise unanswered("sinfo", last_line(done.err))
        rows = [line.split("|") for line in done.out.splitlines() if line.count("|") == 7]
        return [
            Partition(name, up == "up", limit, integer(nodes) or 0, gres, state.rstrip("*~#%$@^-+"))
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

    def stop(self, ids: Iterable[str]) -> None:
        """Send SIGTERM to the steps of jobs, not to their batch scripts."""
        self._scancel("--signal=TERM", *ids)

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
                f"scancel: {message(wrong[-1])}", "only who submitted a job, or an operator, may end it"
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
            raise unanswered("squeue", last_line(done.err))
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
            if done.code == 0 or not PASSING.search(done.err):
                return done
            if time.monotonic() + pause > end:
                raise unanswered(argv[0], last_line(done.err))
            self._sleep(pause)
            pause = min(pause * 1.7, _LONGEST_PAUSE)


def job_of_line(line: str) -> Job:
    """One line of ``squeue --format`` as this file asks for it."""
    id_, state, reason, nodes, start, end, submit, name = line.split("|", 7)
    reason = "" if reason in ("None", "N/A") else reason
    return Job(id_, name, state_name(state), reason, nodes, None, None, _time(submit), _time(start), _time(end))


def job_of_account(line: str) -> Job | None:
    """One line of ``sacct --parsable2`` as this file asks for it; None for anything else."""
    fields = line.split("|", 7)
    if len(fields) != 8 or not fields[0].isdigit():
        return None
    id_, state, codes, nodes, submit, start, end, name = fields
    code, _, number = codes.partition(":")
    nodes = "" if nodes == "None assigned" else nodes
    return Job(
        id_,
        name,
        state_name(state),
        "",
        nodes,
        integer(code),
        integer(number) or None,
        _time(submit),
        _time(start),
        _time(end),
    )


def _time(text: str) -> float | None:
    return float(text) if text.isdigit() and int(text) > 0 else None


def _refused(done: Done, script: str) -> TrainwrightError:
    lines = [line for line in done.err.splitlines() if "error:" in line or "fatal:" in line]
    return refused(lines or [last_line(done.err)], script)
