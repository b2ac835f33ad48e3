"""Rules TW6xx: queues, gangs, node pools and autoscaling."""

from __future__ import annotations

SCHEDULING: dict[str, str] = {
    "TW601": "TW601_taint_not_tolerated:TaintNotTolerated",
}
