"""Seconds that a collective takes on the link it really crosses.

An α–β model with a ramp: ``t = α + βS·(1 + sqrt(S₀/S))``. The ramp is NCCL's slow approach to peak bandwidth, which
a plain α–β line misses by up to 2× around 16 MB (fitted on published nccl-tests curves, see docs/planner.md).
Takes sizes in bytes and a ``Group``; must not know models.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from trainwright.planner.constants import NetworkConstants
from trainwright.planner.workload import Machine

#: Latency that each further node adds to a ring.
HOP_SECONDS = 5e-6


@dataclass(frozen=True)
class Group:
    """Ranks of one collective: ``local`` of them in each of ``nodes`` nodes."""

    local: int
    nodes: int

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.local * self.nodes


def group(size: int, stride: int, per_node: int) -> Group:
    """Where ``size`` ranks spaced ``stride`` apart lie, nodes holding ``per_node`` consecutive ranks."""
    if size <= 1:
        return Group(1, 1)
    if stride >= per_node:
        return Group(1, size)
    local = min(size, per_node // stride)
    return Group(local, -(-size // local))


class Network:
    """The links of one machine. All methods give seconds and take the payload of one rank in bytes."""

    def __init__(self, machine: Machine, constants: NetworkConstants):
        self._machine = machine
        self._c = constants
        self._intra = machine.intra_bandwidth * constants.intra_efficiency
        # A node's interfaces are shared by all of its ranks that talk at once: each gets one rank's part.
        self._rank_inter = machine.inter_bandwidth * constants.inter_efficiency / machine.per_node

    def _intra_bandwidth(self, local: int) -> float:
        """Bytes/s per rank among ``local`` ranks of a node; NVLink pairs fall back to PCIe beyond two."""
        if self._machine.fabric == "nvlink_pairs" and local > 2:
            return self._machine.pcie_bandwidth * self._c.intra_efficiency
        return self._intra

    def _ring(self, size: float, g: Group, passes: int) -> float:
        """One (gather or scatter) or two (reduce) passes; stages inside and between nodes are pipelined."""
        if g.size <= 1 or size <= 0:
            return 0.0
        c = self._c
        intra = inter = 0.0
        # Latency is stated for eight ranks; a ring of fewer has fewer hops, over a fixed cost of about a third.
        alpha = c.intra_alpha * passes / 2 * (0.3 + 0.1 * (g.local - 1))
        if g.local > 1:
            intra = passes * (g.local - 1) / g.local * size / self._intra_bandwidth(g.local)
            intra *= 1 + sqrt(c.intra_ramp / size)
        if g.nodes > 1:
            inter = passes * (g.nodes - 1) / g.nodes * (size / g.local) / self._rank_inter
            inter *= 1 + sqrt(c.inter_ramp / (size * self._machine.per_node / g.local))
            # All-reduce uses trees, whose latency grows with the logarithm of the nodes; gather and scatter use
            # rings, which visit every node.
            if passes == 2:
                alpha += c.inter_alpha * max(1.0, (g.nodes - 1).bit_length() ** 0.5)
            else:
                alpha += c.inter_alpha / 2 + HOP_SECONDS * (g.nodes - 2)
        return alpha + max(intra, inter)

    def all_reduce(self, size: float, g: Group) -> float:
        """``size``: bytes of the tensor that every rank holds."""
        return self._ring(size, g, 2)

    def all_gather(self, size: float, g: Group) -> float:
        """``size``: bytes of the gathered tensor. A reduce-scatter of the same tensor takes as long."""
        return self._ring(size, g, 1)

    def all_to_all(self, size: float, g: Group) -> float:
        """``size``: bytes that one rank holds before the exchange."""
        if g.size <= 1 or size <= 0:
            return 0.0
        c = self._c
        n = g.size
        intra = size * (g.local - 1) / n / self._intra_bandwidth(g.local) if g.local > 1 else 0.0
        inter = size * (n - g.local) / n / self._rank_inter if g.nodes > 1 else 0.0
        ramp = c.inter_ramp if g.nodes > 1 else c.intra_ramp
        alpha = c.intra_alpha + (c.inter_alpha if g.nodes > 1 else 0.0)
        return alpha + max(intra, inter) * (1 + sqrt(ramp / (size * g.local)))

    def send(self, size: float, crosses_node: bool) -> float:
        """Point to point between neighbouring pipeline stages, every rank of the stage at once."""
        if size <= 0:
            return 0.0
        c = self._c
        if crosses_node:
            return c.inter_alpha / 2 + size / self._rank_inter
        return c.intra_alpha / 2 + size / self._intra_bandwidth(2)
