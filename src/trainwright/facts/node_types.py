"""Node types: what a scheduler can place on one EC2 node, for those who check manifests rather than plan runs.

Joins ``instances.json`` with ``node_types.json`` (older types). Gives frozen values, or None for a type that is in
neither. It must not know models, prices or rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from trainwright.facts import instances
from trainwright.facts.data import normalise, read_rows

_RESOURCE = {"nvidia": "nvidia.com/gpu", "aws": "aws.amazon.com/neuron", "amd": "amd.com/gpu"}


@dataclass(frozen=True)
class NodeType:
    """One EC2 type. ``count`` accelerators are counted by ``resource``; ``efa`` counts EFA interfaces; ``rdma`` is
    None where nobody states it; ``cores`` are physical NeuronCores. ``cpu`` (millicores) and ``memory`` (bytes) are
    what EKS leaves to pods, None where not known; ``vcpus`` and ``physical_memory`` are the machine's own."""

    name: str
    resource: str
    count: int
    efa: int
    rdma: bool | None = None
    cores: int | None = None
    cpu: int | None = None
    memory: int | None = None
    vcpus: int | None = None
    physical_memory: int | None = None

    @property
    def is_neuron(self) -> bool:
        """Whether its accelerators are Neuron devices."""
        return self.resource == "aws.amazon.com/neuron"

    @property
    def logical_cores_per_device(self) -> int | None:
        """Processes one Neuron device serves by default: trn2 joins two physical cores into one."""
        if self.cores is None:
            return None
        each = self.cores // self.count
        return each // 2 if self.name.startswith("trn2") else each


@cache
def get(name: str) -> NodeType | None:
    """The EC2 type called ``name``, or None when it is in neither table."""
    key = normalise(name)
    row = read_rows("node_types").get(key)
    if row is not None:
        memory = int(row["memory_gib"] * 2**30)
        return NodeType(
            key, row["resource"], row["count"], row["efa"], row.get("rdma"), row.get("cores"),
            vcpus=row["vcpus"], physical_memory=memory,
        )  # fmt: skip
    if read_rows("instances").get(key, {}).get("provider") != "ec2":
        return None
    found = instances.get(key)
    resource = _RESOURCE.get(found.accelerator.vendor.lower())
    if resource is None:
        return None
    return NodeType(
        key,
        resource,
        found.count,
        found.nics if found.nic == "efa" else 0,
        found.gpudirect,
        found.neuron_cores,
        found.allocatable_cpu,
        found.allocatable_memory,
        found.vcpus,
        found.memory,
    )
