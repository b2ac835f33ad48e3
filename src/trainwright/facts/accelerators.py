"""Accelerators: peak FLOP/s by precision, memory and link of each chip, from vendors' public data sheets.

Reads ``accelerators.json`` on first use and gives frozen values. A figure that no public source states for
certain is ``None``, never a guess. It must not know models, layouts or prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts.data import normalise, read_rows

#: Names without a memory size or form factor, and the variant that clusters for training have.
ALIASES = {
    "a100": "a100-80gb",
    "a100-sxm4-80gb": "a100-80gb",
    "a100-sxm4-40gb": "a100-40gb",
    "h100-80gb": "h100",
    "h100-80gb-hbm3": "h100",
    "h100-sxm5": "h100",
    "rtx-pro-6000": "rtx-pro-server-6000",
    "v100": "v100-32gb",
}


@dataclass(frozen=True)
class Accelerator:
    """One chip. FLOP/s are dense (no structured sparsity), bandwidths bytes/s, memory bytes.

    ``memory_usable`` is what a process sees, less than the nominal size on the box (equal where it is not known).
    ``link_bandwidth`` is the chip's own scale-up link (NVLink, NeuronLink …), all ports together, in one
    direction; ``None`` where there is only PCIe. ``pcie_bandwidth`` is one direction to the host.
    """

    name: str
    vendor: str
    memory_nominal: int
    memory_usable: int
    memory_bandwidth: float
    flops: Mapping[str, float] = field(default_factory=dict)
    link: str = "pcie"
    link_bandwidth: float | None = None
    pcie_bandwidth: float | None = None
    source: str = ""
    date: str = ""
    note: str = ""

    def peak_flops(self, precision: str) -> float | None:
        """Dense peak FLOP/s in ``bf16``, ``fp16``, ``fp8``, ``tf32``, ``fp32`` …; ``None`` without such a unit."""
        return self.flops.get(precision)


def get(name: str) -> Accelerator:
    """The accelerator called ``name`` (``h100``, ``a100-80gb``, ``trainium2``); unknown: ``InputError``."""
    key = normalise(name)
    key = ALIASES.get(key, key)
    if key not in read_rows("accelerators"):
        what = f"no accelerator called {name!r} is known"
        raise InputError([Problem("accelerator", what=what, instead=did_you_mean(key, names()))])
    return _load(key)


def names() -> list[str]:
    """Every known accelerator."""
    return list(read_rows("accelerators"))


@cache
def _load(key: str) -> Accelerator:
    return from_row(key, read_rows("accelerators")[key])


def from_row(name: str, row: Mapping[str, Any]) -> Accelerator:
    """One row of ``accelerators.json`` (or of a user's file) as a value: TFLOP/s, GB/s and GiB become plain units."""

    def per_second(field_name: str) -> float | None:
        value = row.get(field_name)
        return None if value is None else value * 1e9

    nominal = int(row["memory_nominal_gib"] * 2**30)
    usable = row.get("memory_usable_mib")
    return Accelerator(
        name=name,
        vendor=row.get("vendor", ""),
        memory_nominal=nominal,
        memory_usable=nominal if usable is None else int(usable * 2**20),
        memory_bandwidth=row["memory_gb_s"] * 1e9,
        flops={precision: tera * 1e12 for precision, tera in row["tflops"].items()},
        link=row.get("link", "pcie"),
        link_bandwidth=per_second("link_gb_s"),
        pcie_bandwidth=per_second("pcie_gb_s"),
        source=row.get("source", ""),
        date=row.get("date", ""),
        note=row.get("note", ""),
    )
