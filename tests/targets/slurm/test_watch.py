"""Asking Slurm seldom: one query for all, longer and longer pauses, nothing about what has ended. No clock runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from trainwright.targets.slurm.queue import Job
from trainwright.targets.slurm.watch import Watch


class Queue:
    """A client that counts, and a clock that is set by hand."""

    patience = 0.0

    def __init__(self) -> None:
        self.now = 0.0
        self.states = {"1": "RUNNING", "2": "PENDING"}
        self.asked: list[list[str]] = []

    def jobs(self, ids: Any) -> dict[str, Job]:
        self.asked.append(sorted(ids))
        return {i: Job(i, "x", self.states[i]) for i in ids if i in self.states}


def watch_of(queue: Queue) -> Watch:
    return Watch(queue, clock=lambda: queue.now)  # type: ignore[arg-type]  # all of a client that a watch uses


def test_looks_between_two_queries_cost_nothing() -> None:
    queue = Queue()
    watch = watch_of(queue)
    for _ in range(50):
        assert watch.jobs(["1", "2"])["1"] == Job("1", "x", "RUNNING")
    assert queue.asked == [["1", "2"]]


def test_pauses_grow_while_nothing_changes_and_shrink_when_something_does() -> None:
    queue = Queue()
    watch = watch_of(queue)
    times = []
    for tenth in range(3000):
        queue.now = tenth / 10
        before = len(queue.asked)
        watch.jobs(["1"])
        if len(queue.asked) > before:
            times.append(queue.now)
    pauses = [b - a for a, b in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 2
    assert 19 <= pauses[-1] <= 21
    queue.states["1"] = "COMPLETING"
    queue.now += 25
    watch.jobs(["1"])
    queue.now += 2
    watch.jobs(["1"])
    assert len(queue.asked) == len(times) + 2


def test_what_has_ended_is_not_asked_for_again_and_one_query_serves_all() -> None:
    queue = Queue()
    queue.states["1"] = "COMPLETED"
    watch = watch_of(queue)
    watch.jobs(["1"])
    watch.jobs(["2"])
    queue.now = 100.0
    watch.jobs(["1"])
    watch.jobs(["2"])
    assert queue.asked == [["1"], ["2"], ["2"]]


def test_a_job_that_slurm_has_forgotten_is_none_and_forget_asks_at_once() -> None:
    queue = Queue()
    watch = watch_of(queue)
    assert watch.jobs(["9"]) == {"9": None}
    watch.forget(["9"])
    queue.states["9"] = "PENDING"
    assert watch.jobs(["9"])["9"] == Job("9", "x", "PENDING")
