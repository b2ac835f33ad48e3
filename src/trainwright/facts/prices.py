"""Prices: US dollars per instance-hour by instance, region and capacity, each with the date it was read.

Reads ``prices.json`` on first use. Where no dated public source was read there is no price, and callers speak of
hours instead of dollars. It must not know machines or plans.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Literal, get_args

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts.data import normalise, read_file, read_rows

Capacity = Literal["on_demand", "spot", "capacity_block"]
DEFAULT_REGION = "us-east-1"

#: Prices older than this are worth a warning: EC2 cut accelerated prices by up to 45 % within one year (June 2025).
STALE_AFTER = datetime.timedelta(days=180)


@dataclass(frozen=True)
class Price:
    """What one instance costs per hour, where and as of when (ISO date)."""

    instance: str
    region: str
    capacity: Capacity
    usd_per_hour: float
    source: str
    date: str

    def age(self, today: datetime.date | None = None) -> datetime.timedelta:
        """How old the price is; ``today`` defaults to the clock's."""
        return (today or datetime.date.today()) - datetime.date.fromisoformat(self.date)

    def is_stale(self, today: datetime.date | None = None) -> bool:
        """Whether the price is older than ``STALE_AFTER``."""
        return self.age(today) > STALE_AFTER

    def describe(self, today: datetime.date | None = None) -> str:
        """One line that says the price, what it is for and how old it is."""
        days = self.age(today).days
        what = self.capacity.replace("_", " ")
        return f"${self.usd_per_hour:.2f}/h ({what}, {self.region}, read {self.date}, {days} days ago)"


def find(instance: str, region: str = DEFAULT_REGION, capacity: str = "on_demand") -> Price | None:
    """The price of an instance type, or None when no dated public source was read for that region and capacity.

    Raises ``InputError`` for a kind of capacity that does not exist; ``on-demand`` and ``on_demand`` are the same.
    """
    kind = capacity.strip().lower().replace("-", "_")
    if kind not in get_args(Capacity):
        what = f"is {capacity!r}"
        raise InputError([Problem("capacity", what=what, instead=did_you_mean(kind, get_args(Capacity)))])
    name = normalise(instance)
    found = read_rows("prices").get(name, {}).get(kind, {}).get(region)
    if found is None:
        return None
    usd, source_key = found
    source, read_on = read_file("prices")["sources"][source_key]
    return Price(name, region, _CAPACITIES[kind], float(usd), source, read_on)


def regions(instance: str, capacity: str = "on_demand") -> list[str]:
    """Regions in which a price is known."""
    return list(read_rows("prices").get(normalise(instance), {}).get(capacity, {}))


def all_regions() -> list[str]:
    """Every region in which any price is known."""
    rows = read_rows("prices").values()
    return sorted({region for kinds in rows for known in kinds.values() for region in known})


_CAPACITIES: dict[str, Capacity] = {name: name for name in get_args(Capacity)}
