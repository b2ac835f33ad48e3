"""Rules TW2xx: what accelerators are asked for and used."""

from __future__ import annotations

ACCELERATORS: dict[str, str] = {
    "TW201": "TW201_more_processes_than_accelerators:MoreProcessesThanAccelerators",
}
