"""Value: what a rule is told about a quantity, always with the place where it is (or should be) written.

``Known`` has a value; ``Unknown`` is decided elsewhere (a template, the environment, the cluster) and must never be
called wrong; ``Absent`` was not written at all. Also the parsers of the notations that values come in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Generic, TypeVar

from trainwright.linter.text import Span

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A value that the input fixes."""

    value: T
    span: Span

    @property
    def known(self) -> T | None:
        """The value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something is written, but its value is decided outside the input."""

    span: Span
    text: str = ""

    @property
    def known(self) -> None:
        """None: never compare it."""
        return None


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing is written; ``span`` is where it would belong."""

    span: Span

    @property
    def known(self) -> None:
        """None: never compare it."""
        return None


Value = Known[T] | Unknown | Absent

_QUANTITY = re.compile(r"^\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE])?)\s*$")
_SUFFIX = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def quantity(text: str) -> float | None:
    """A Kubernetes quantity ("500Gi", "100m", "8") as a plain number, or None when it is not one."""
    match = _QUANTITY.match(text)
    if not match or len(text) > 40:
        return None
    number, exponent, suffix = match.groups()
    try:
        return float(number + (exponent or "")) * _SUFFIX.get(suffix or "", 1.0)
    except (ValueError, OverflowError):
        return None


def integer(text: str) -> int | None:
    """A decimal integer, or None."""
    stripped = text.strip()
    return int(stripped) if re.fullmatch(r"[+-]?\d{1,18}", stripped, re.ASCII) else None


def slurm_minutes(text: str) -> float | None:
    """Slurm's ``--time`` ("90", "12:00:00", "2-00:00:00") in minutes; None when it is not one or is unlimited."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text.strip(), re.ASCII)
    if not match or len(text) > 30:
        return None
    days, first, second, third = (int(part) if part else None for part in match.groups())
    if days is not None:
        return days * 1440 + (first or 0) * 60 + (second or 0) + (third or 0) / 60
    if second is None:
        return float(first or 0)
    if third is None:
        return (first or 0) + second / 60
    return (first or 0) * 60 + second + third / 60


def slurm_megabytes(text: str) -> float | None:
    """Slurm's ``--mem`` ("1100G", "64000") in MiB; None when it is not one. "0" means the whole node."""
    match = re.fullmatch(r"(\d{1,15})([KMGT]?)B?", text.strip(), re.ASCII | re.IGNORECASE)
    if not match:
        return None
    return int(match[1]) * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}[match[2].upper()]


def version_tuple(text: str) -> tuple[int, ...]:
    """ "1.33", "v25.11" or "2.46.0-py310" as numbers that compare; () when it does not begin with one."""
    match = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)", text.strip(), re.ASCII)
    return tuple(int(part) for part in match[1].split(".")) if match else ()
