"""Waits and failures provoked on a real Slurm, each with the sentence that it must be given.

Every case is one job; the table is right when at least 95 % of its sentences are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from slurm_bed import Bed, Early, wait

from trainwright.errors import TrainwrightError
from trainwright.targets.reasons import explain
from trainwright.targets.slurm.client import Client
from trainwright.targets.slurm.queue import Job
from trainwright.targets.slurm.state import Snapshot, state_of
from trainwright.targets.slurm.transport import Local

pytestmark = pytest.mark.versions


@dataclass(frozen=True)
class Case:
    """Options of sbatch, and the id and the class of the reason that must be shown."""

    options: tuple[str, ...]
    id: str
    class_: str
    also: tuple[str, str] = ("", "")  # what another release makes of it


WAITS = [
    Case(("--licenses=tool",), "slurm-licenses", "quota"),  # first: behind others it would only have a priority
    Case(("--nodes=2", "--cpus-per-task=8"), "slurm-resources", "capacity"),
    Case(("--nodes=2", "--cpus-per-task=8"), "slurm-priority", "priority"),
    Case(("--dependency=afterok:FILLER",), "slurm-dependency", "dependency"),
    Case(("--dependency=afterok:FAILED", "--kill-on-invalid-dep=no"), "slurm-dependency-never", "dependency"),
    Case(("--begin=now+1hour",), "slurm-begin-time", "dependency"),
    Case(("--hold",), "slurm-held-user", "priority"),
    Case(("--partition=down",), "slurm-part-down", "capacity"),
    Case(("--partition=short", "--time=5"), "slurm-part-time-limit", "constraint"),
    Case(("--partition=single", "--nodes=2"), "slurm-part-node-limit", "constraint"),
    Case(("--qos=small", "--time=60"), "slurm-qos-max-wall", "constraint"),
    Case(("--qos=small", "--time=5", "--nodes=2"), "slurm-qos-max-per-job", "constraint"),
    Case(("--qos=small", "--time=5", "--gpus-per-node=2"), "slurm-qos-grp-now", "quota"),
    Case(("--qos=wide", "--gpus-per-node=4"), "slurm-qos-grp-now", "quota"),
    Case(("--account=other", "--gpus-per-node=4"), "slurm-assoc-grp-now", "quota"),
    Case(("--reservation=later",), "slurm-reservation-wait", "capacity"),
]
WAITS_FOR_A_DRAINED_NODE = [
    Case(("--nodes=2",), "slurm-nodes-down", "node-lost"),
    Case(
        ("--nodelist=n2", "--partition=low"),
        "slurm-unavailable-nodes",
        "node-lost",
        also=("slurm-maybe-reserved", "capacity"),  # 24.11 says no more of a drained node
    ),
]
REFUSALS = [
    Case(("--gpus-per-node=9",), "slurm-submit-node-config", "constraint"),
    Case(("--partition=nowhere",), "slurm-submit-partition", "config"),
    Case(("--partition=inactive",), "slurm-submit-part-inactive", "capacity"),
    Case(("--account=nobodys",), "slurm-submit-account", "permission"),
    Case(("--qos=none",), "slurm-submit-qos", "permission"),
    Case(("--constraint=green",), "slurm-submit-feature", "config"),
    Case(("--gres=tpu:1",), "slurm-submit-gres", "config"),
    Case(("--nodelist=n9",), "slurm-submit-node-name", "config"),
    Case(("--reservation=none",), "slurm-submit-reservation", "config"),
]
FAILURES = [
    (("--time=1",), "slurm-state-timeout"),  # begun early
    (("--wrap=exit 1",), "slurm-user-error"),
    (("--wrap=exit 3",), "slurm-crash"),
    (("--wrap=kill -9 $$",), "slurm-exit-kill"),
    (("--wrap=true", "--output=/dev/null/x.log"), "slurm-exit-io"),
    (("--wrap=sleep 200",), "slurm-state-cancelled"),
    (("--mem=50", "--wrap=srun python3 -c 'import time; x = b\"1\" * 300000000; time.sleep(60)'"),
     "slurm-log-memory-limit"),
]  # fmt: skip


@pytest.fixture
def client(bed: Bed) -> Client:
    return Client(Local())


def queue(bed: Bed, *options: str) -> str:
    wrap = () if any(option.startswith("--wrap") for option in options) else ("--wrap=sleep 300",)
    said = bed.slurm("sbatch", "--parsable", f"--output={bed.here}/%j.log", "--no-requeue", *options, *wrap)
    assert said.strip().isdigit(), said
    return said.strip()


def final(client: Client, id_: str) -> bool:
    job = client.jobs([id_]).get(id_)
    return job is not None and job.final


def test_why_a_job_waits(bed: Bed, client: Client) -> None:
    failed = queue(bed, "--wrap=exit 1")
    wait(lambda: final(client, failed), "a failed job")
    filler = queue(bed, "--nodelist=n1", "--licenses=tool", "--time=30")
    wait(lambda: client.jobs([filler])[filler].state == "RUNNING", "a job that fills a node")
    later = ("ReservationName=later", "Users=root", "Nodes=n1", "StartTime=now+1day", "Duration=10")
    bed.slurm("scontrol", "create", "reservation", *later)
    try:
        wrong = _wrong(bed, client, WAITS, {"FILLER": filler, "FAILED": failed})
        bed.clear()
        bed.slurm("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
        wrong += _wrong(bed, client, WAITS_FOR_A_DRAINED_NODE, {})
    finally:
        bed.clear()
        bed.slurm("scontrol", "update", "NodeName=n2", "State=RESUME")
        bed.slurm("scontrol", "delete", "ReservationName=later")
    assert len(wrong) <= 0.05 * (len(WAITS) + len(WAITS_FOR_A_DRAINED_NODE)), "\n".join(wrong)


def _wrong(bed: Bed, client: Client, cases: list[Case], named: dict[str, str]) -> list[str]:
    """What is said of jobs with these options and is not what the cases want."""
    ids = []
    for case in cases:
        options = [_replaced(option, named) for option in case.options]
        ids.append(queue(bed, *options))
    wait(lambda: all(_looked_at(job) for job in client.jobs(ids).values()), "the scheduler", 60)
    time.sleep(3)  # the first reason given is not always the last
    jobs, wrong = client.jobs(ids), []
    for case, id_ in zip(cases, ids, strict=True):
        state = state_of(Snapshot("x-00000001", {"train": jobs[id_]}))
        got = (state.reason.id, state.reason.class_) if state.reason else None
        if state.phase != "PENDING" or got not in ((case.id, case.class_), case.also):
            wrong.append(f"{case.options}: {jobs[id_].reason} → {got}, not {case.id}")
    return wrong


def _replaced(option: str, named: dict[str, str]) -> str:
    for word, id_ in named.items():
        option = option.replace(word, id_)
    return option


def _looked_at(job: Job) -> bool:
    return job.state == "PENDING" and bool(job.reason)


def test_why_a_job_is_refused(bed: Bed, client: Client) -> None:
    script = bed.here / "x.sbatch"
    wrong = []
    for case in REFUSALS:
        script.write_text("#!/bin/bash\n" + "\n".join(f"#SBATCH {option}" for option in case.options) + "\ntrue\n")
        try:
            client.submit(
                str(script), folder=str(bed.here), name="x", dependency=None, exclude=(), environment={}, cwd=None
            )
            wrong.append(f"{case.options} was not refused")
        except TrainwrightError as error:
            reason = explain("slurm", str(error).partition("(sbatch: ")[2], where="sbatch")
            if (reason.id, reason.class_) != (case.id, case.class_) or reason.sentence not in str(error):
                wrong.append(f"{case.options}: {error} → {reason.id}, not {case.id}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.late
def test_why_a_job_failed(bed: Bed, client: Client, early: Early) -> None:
    from trainwright.targets.reasons import earliest_cause
    from trainwright.targets.slurm.between import known_lines

    ids = [early.timeout, *(queue(bed, "--time=5", *options) for options, _ in FAILURES[1:])]
    cancelled = next(id_ for id_, (_, reason) in zip(ids, FAILURES, strict=True) if reason == "slurm-state-cancelled")
    wait(lambda: client.jobs([cancelled])[cancelled].state == "RUNNING", "the job to be cancelled")
    bed.slurm("scancel", cancelled)
    wait(lambda: all(final(client, id_) for id_ in ids), "the end of every job")
    wrong = []
    for id_, (options, expected) in zip(ids, FAILURES, strict=True):
        job = client.jobs([id_])[id_]
        folder = early.folder if id_ == early.timeout else bed.here
        says = earliest_cause(known_lines(folder / f"{id_}.log"))
        state = state_of(Snapshot("x-00000001", {"train": job}, slurm_says=says))
        if state.reason is None or state.reason.id != expected or not state.final:
            wrong.append(f"{options}: {job} → {state}, not {expected}")
    assert not wrong, "\n".join(wrong)
