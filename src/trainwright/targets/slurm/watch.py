"""What Slurm knows of jobs, asked seldom: one query for all jobs that anybody watches, at growing intervals.

A follower looks several times a second and a list of runs looks at all of them; the controller must notice neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache

from trainwright.targets.slurm.queue import Job, Queue
from trainwright.targets.slurm.transport import over_rest, transport_for

_FIRST, _LONGEST, _GROWTH = 1.0, 20.0, 1.4
#: A controller that has answered before is worth waiting for: a restart with many jobs takes minutes.
_PATIENCE_ONCE_SEEN = 240.0


class Watch:
    """Jobs by id, as fresh as ``interval`` seconds. What has ended is never asked for again."""

    def __init__(self, client: Queue, clock: Callable[[], float] = time.monotonic):
        self.client = client
        self._clock = clock
        self._jobs: dict[str, Job | None] = {}
        self._asked: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._interval = _FIRST

    def jobs(self, ids: Iterable[str]) -> dict[str, Job | None]:
        """Each job; None for one that Slurm has forgotten. Asks for all watched jobs when one of these is stale."""
        wanted = list(ids)
        stale = [id_ for id_ in wanted if self._is_stale(id_)]
        if stale:
            self._ask({*stale, *(id_ for id_ in self._jobs if not self._is_over(id_))})
        return {id_: self._jobs[id_] for id_ in wanted}

    def forget(self, ids: Iterable[str]) -> None:
        """Ask again at the next look: something has just been done to these jobs."""
        for id_ in ids:
            self._asked.pop(id_, None)
        self._interval = _FIRST

    def due(self, what: str, seconds: float) -> bool:
        """True when something else was last done so many seconds ago; it counts as done now."""
        last = self._done.get(what)
        if last is not None and self._clock() - last < seconds:
            return False
        self._done[what] = self._clock()
        return True

    def _ask(self, ids: set[str]) -> None:
        found = self.client.jobs(ids)
        self.client.patience = _PATIENCE_ONCE_SEEN
        changed = any(self._jobs.get(id_) != found.get(id_) for id_ in ids)
        self._interval = _FIRST if changed else min(self._interval * _GROWTH, _LONGEST)
        for id_ in ids:
            self._jobs[id_] = found.get(id_)
            self._asked[id_] = self._clock()

    def _is_stale(self, id_: str) -> bool:
        if id_ not in self._asked:
            return True
        return not self._is_over(id_) and self._clock() - self._asked[id_] >= self._interval

    def _is_over(self, id_: str) -> bool:
        job = self._jobs.get(id_)
        return job is not None and job.final


@cache
def watch_for(login: str | None) -> Watch:
    """The one watch of this process over a cluster: targets are made anew for every call, the queries are not."""
    return Watch(queue_for(login))


def queue_for(login: str | None) -> Queue:
    """Slurm where ``slurm.login`` says: its commands here, over ssh or in a pod, or slurmrestd at a URL."""
    if over_rest(login):
        from trainwright.targets.slurm.rest import Rest

        return Rest(str(login))
    from trainwright.targets.slurm.client import Client

    return Client(transport_for(login))
