"""Machine: one node as the planner sees it — its accelerators, the fabric between them and the network out of it.

Built from a row of ``instances.json`` or from the user's own file. It must not know models, layouts or schedulers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainwright.facts.accelerators import Accelerator

Fabric = Literal["nvswitch", "nvlink", "nvlink_pairs", "neuronlink", "infinity_fabric", "pcie", "none"]
FABRICS: tuple[Fabric, ...] = (
    "nvswitch",
    "nvlink",
    "nvlink_pairs",
    "neuronlink",
    "infinity_fabric",
    "pcie",
    "none",
)

#: Share of the nominal rate that collectives reach where nobody measured it: the one published measurement we have
#: (two p4de nodes, see ``network_efficiency_source`` in instances.json), by analogy.
DEFAULT_NETWORK_EFFICIENCY = 0.83


@dataclass(frozen=True)
class Machine:
    """One node. Bandwidths are bytes/s in one direction, memory and storage bytes.

    ``fabric_bandwidth`` is what one accelerator can send to the others in its node. ``domain`` is the number of
    accelerators that the fabric joins, more than ``count`` where it spans nodes (NVL72). ``network_bandwidth`` is
    the nominal rate of all interfaces of the node together; ``nics`` counts EFA or InfiniBand interfaces (0: plain
    TCP). ``gpudirect`` is None where it is not known. ``calibration`` holds constants fitted on the user's own runs.
    """

    name: str
    accelerator: Accelerator
    count: int
    fabric: Fabric
    fabric_bandwidth: float | None
    network_bandwidth: float
    nics: int = 0
    nic: str = ""
    gpudirect: bool | None = None
    network_efficiency: float | None = None
    domain: int = 0
    vcpus: int | None = None
    memory: int | None = None
    nvme: int | None = None
    provider: str = ""
    usd_per_hour: float | None = None
    calibration: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    date: str = ""

    @property
    def memory_usable(self) -> int:
        """Bytes one process sees on one accelerator."""
        return self.accelerator.memory_usable

    @property
    def network_usable(self) -> float:
        """Bytes/s that collectives can get out of a node in one direction."""
        return self.network_bandwidth * (self.network_efficiency or DEFAULT_NETWORK_EFFICIENCY)

    @property
    def fabric_domain(self) -> int:
        """Accelerators joined by the intra-node fabric."""
        return self.domain or self.count


@dataclass(frozen=True)
class Instance(Machine):
    """A node type one can rent, with what EKS leaves to pods: ``allocatable_cpu`` in millicores, memory in bytes.

    Both are for the largest pod beside the system's own reservations, before any daemon set takes its share.
    ``neuron_cores`` counts NeuronCores, which are what ``aws.amazon.com/neuroncore`` and ranks count on Trainium.
    """

    allocatable_cpu: int | None = None
    allocatable_memory: int | None = None
    neuron_cores: int | None = None
    max_pods: int | None = None
