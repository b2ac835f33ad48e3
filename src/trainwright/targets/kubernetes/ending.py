"""Waiting until pods are gone: after a cancel, while they save, and before names are used again.

Takes a watch and what to look for; bounded by the pods' own grace, or by the one that is given. It must not know why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainwright.errors import AnswerNo
from trainwright.targets.kubernetes.resources import POD
from trainwright.targets.kubernetes.submission import Placed, remove
from trainwright.targets.kubernetes.watch import Wanted, Watch

_GONE_SECONDS = 180.0  # an object and its pods may take a grace period to go
_MARGIN_SECONDS = 15.0  # after the grace: the kubelet's and the controllers' own time
_PAUSE_SECONDS = 0.3


def clear(watch: Watch, wanted: Wanted, objects: Sequence[Placed], pause: Callable[[float], object]) -> None:
    """Take away what an earlier attempt has left, and wait until its pods are gone: names are used again."""
    found = [one for one in objects if remove(watch.cluster, one.object_)]
    end = time.monotonic() + _GONE_SECONDS
    while time.monotonic() < end:
        watch.forget(wanted.name)
        seen = watch.look([wanted])[wanted.name]
        left = [one for one in found if (one.kind, one.name) in seen.objects]
        if not left and not [pod for pod in seen.pods if _unfinished(pod)]:
            return
        pause(_PAUSE_SECONDS)
    kinds = ", ".join(f"{one.kind}/{one.name}" for one in found)
    raise AnswerNo(f"{kinds or wanted.name} of the last attempt is still being deleted", "try again in a minute")


def until_gone(
    watch: Watch,
    wanted: Wanted,
    grace: float | None,
    pause: Callable[[float], object],
    look: Callable[[], object],
) -> None:
    """Until every pod has ended or the time is up. ``look`` is called each time: it keeps what pods still print.

    ``grace`` in seconds shortens the pods' own; 0 kills at once.
    """
    hurried: set[str] = set()
    end = math.inf
    while time.monotonic() < end:
        watch.forget(wanted.name)
        look()
        left = [pod for pod in watch.look([wanted])[wanted.name].pods if _unfinished(pod)]
        if not left:
            return
        if math.isinf(end):
            own = max(_grace(pod) for pod in left)
            end = time.monotonic() + (own if grace is None else grace) + _MARGIN_SECONDS
        for pod in left if grace is not None else ():
            name = str(pod["metadata"]["name"])
            if name not in hurried:
                watch.cluster.delete(POD, name, grace_seconds=int(grace or 0))
                hurried.add(name)
        pause(_PAUSE_SECONDS)


def _unfinished(pod: Mapping[str, Any]) -> bool:
    return str((pod.get("status") or {}).get("phase")) not in ("Succeeded", "Failed")


def _grace(pod: Mapping[str, Any]) -> float:
    return float((pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 30)
