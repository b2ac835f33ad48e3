"""Instances: every accelerated EC2 type and the DGX systems, as ``Instance`` values.

Reads ``instances.json`` on first use. It must not know prices, models or layouts.
"""

from __future__ import annotations

from functools import cache

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts import accelerators
from trainwright.facts.accelerators import Accelerator
from trainwright.facts.data import normalise, read_file, read_rows
from trainwright.facts.machines import Fabric, Instance

BITS = 8


def get(name: str) -> Instance:
    """The instance type called ``name`` (``p5.48xlarge``, ``dgx-h100``); unknown names raise ``InputError``."""
    key = normalise(name)
    if key not in read_rows("instances"):
        what = f"no instance type called {name!r} is known"
        near = did_you_mean(key, names(), begun=True)
        way_out = f"{near}{'' if near.endswith('?') else ';'} or describe it in a file: --machine FILE"
        raise InputError([Problem("instance", what=what, instead=way_out)])
    return _load(key)


def names(provider: str = "") -> list[str]:
    """Every known instance type, or those of one provider (``ec2``, ``nvidia``)."""
    return [name for name, row in read_rows("instances").items() if provider in ("", row["provider"])]


@cache
def _load(key: str) -> Instance:
    header = read_file("instances")
    row = {"source": header["source"], "date": header["date"], **read_rows("instances")[key]}
    chip = accelerators.get(row["accelerator"])

    def scaled(field: str, unit: float) -> int | None:
        value = row.get(field)
        return None if value is None else int(value * unit)

    return Instance(
        name=key,
        accelerator=chip,
        count=row["count"],
        fabric=row["fabric"],
        fabric_bandwidth=fabric_bandwidth(row["fabric"], chip),
        network_bandwidth=row["network_gbps"] * 1e9 / BITS,
        nics=row["nics"],
        nic=row["nic"],
        gpudirect=row.get("gpudirect"),
        network_efficiency=row.get("network_efficiency"),
        domain=row.get("domain", 0),
        vcpus=row["vcpus"],
        memory=scaled("memory_gib", 2**30),
        nvme=scaled("nvme_gb", 1e9),
        provider=row["provider"],
        source=row["source"],
        date=row["date"],
        allocatable_cpu=row.get("allocatable_cpu_m"),
        allocatable_memory=scaled("allocatable_memory_mib", 2**20),
        neuron_cores=row.get("neuron_cores"),
        max_pods=row.get("max_pods"),
    )


def fabric_bandwidth(fabric: Fabric, chip: Accelerator) -> float | None:
    """Bytes/s one chip can send within its node over ``fabric``; None where there is no peer or no known figure."""
    if fabric == "none":
        return None
    return chip.pcie_bandwidth if fabric == "pcie" else chip.link_bandwidth
