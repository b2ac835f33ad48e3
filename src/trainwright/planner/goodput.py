"""What failures cost: the best checkpoint interval, the share of time that makes progress, and its price.

First-order optimum of Young (1974) and its correction by Daly (2006, eq. 37), with every node failing alone. Takes
seconds and rates; must not know layouts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

#: Interruptions of one node per hour: Llama 3 405B, 419 unexpected ones in 54 days on 2,048 nodes of eight H100
#: (Grattafiori et al. 2024, §3.3.4).
FAILURES_PER_NODE_HOUR = 419 / (54 * 24 * 2048)
#: Seconds from a failure to the first new step: detection, rescheduling, loading. A default to be replaced.
RESTART_SECONDS = 600.0


@dataclass(frozen=True)
class Goodput:
    """Seconds throughout, except ``goodput`` (a fraction) and ``expected_failures`` (over the whole run)."""

    #: None where nothing ever fails.
    mean_time_between_failures: float | None
    checkpoint_seconds: float
    checkpoint_interval: float
    restart_seconds: float
    goodput: float
    expected_hours: float | None
    expected_failures: float | None
    expected_cost: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)


def best_interval(checkpoint_seconds: float, mean_time_between_failures: float) -> float:
    """Seconds of work between checkpoints that loses least (Daly 2006, eq. 37); to first order sqrt(2·C·M)."""
    c, m = checkpoint_seconds, mean_time_between_failures
    if c <= 0.0:
        return 0.0
    if c >= 2 * m:
        return m
    ratio = c / (2 * m)
    return sqrt(2 * c * m) * (1 + sqrt(ratio) / 3 + ratio / 9) - c


def efficiency(interval: float, checkpoint_seconds: float, restart_seconds: float, mtbf: float) -> float:
    """Share of time that makes lasting progress: writing, repeated work (half an interval a failure), restarting."""
    if interval <= 0.0:
        return max(0.0, 1.0 - restart_seconds / mtbf)
    writing = interval / (interval + checkpoint_seconds)
    lost = ((interval + checkpoint_seconds) / 2 + restart_seconds) / mtbf
    return writing * max(0.0, 1.0 - lost)


def goodput(
    nodes: int,
    checkpoint_seconds: float,
    hours: float | None = None,
    cost: float | None = None,
    *,
    failures_per_node_hour: float = FAILURES_PER_NODE_HOUR,
    restart_seconds: float = RESTART_SECONDS,
    interval: float | None = None,
) -> Goodput:
    """Expected goodput at the best (or the given) checkpoint interval; hours and cost include what is lost."""
    rate = nodes * failures_per_node_hour / 3600
    mtbf = 1 / rate if rate > 0 else float("inf")
    chosen = interval if interval is not None else best_interval(checkpoint_seconds, mtbf) if rate > 0 else 86400.0
    share = efficiency(chosen, checkpoint_seconds, restart_seconds, mtbf)
    expected = hours / share if hours is not None and share > 0 else None
    return Goodput(
        mean_time_between_failures=mtbf if rate > 0 else None,
        checkpoint_seconds=checkpoint_seconds,
        checkpoint_interval=chosen,
        restart_seconds=restart_seconds,
        goodput=share,
        expected_hours=expected,
        expected_failures=expected * nodes * failures_per_node_hour if expected is not None else None,
        expected_cost=cost / share if cost is not None and share > 0 else None,
    )
