"""Which network NCCL uses between nodes, by what NCCL and its OFI plugin log of themselves.

Takes lines of a log written with NCCL_DEBUG=INFO; gives the network, and a sentence when it is not the one that the
machine has. Pure: targets and launchers decide where the lines come from. Formats are those of NCCL 2.10 to 2.30
(src/init.cc, src/plugin/plugin_open.cc) and aws-ofi-nccl 1.1 to 1.19 (src/nccl_ofi_net.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

#: Set in a rank's environment by targets that know the machine: ``efa`` means that a run on anything else must end.
NETWORK_VARIABLE = "TRAINWRIGHT_NETWORK"
_USING = re.compile(r"NCCL INFO Using network (?P<name>.+?)\s*$")
_PROVIDER = re.compile(
    r"NET/OFI Selected [Pp]rovider is (?P<provider>[^\s,(]+)"
    r"(?:, fabric is \S+)?(?: \(found (?P<nics>\d+) nics?\))?"
)
#: Why the plugin was not used; the first that stands in a log is told.
_WHY = re.compile(
    r"NCCL (?:INFO|WARN) (?P<why>NET/Plugin ?: (?:Could not find|No plugin found|Failed to).*"
    r"|NET/Plugin: \S*libnccl-net\S*: cannot open.*"
    r"|NET/OFI .*(?:[Nn]o eligible|[Uu]nable to|failed|initialization).*)"
)
_LONGEST = 160


@dataclass(frozen=True)
class Network:
    """``name`` as NCCL calls it: ``Socket``, ``IB``, ``AWS Libfabric``, ``Libfabric``; with libfabric, its provider.

    ``nics`` is how many interfaces the plugin found, None where it did not say. ``why_not`` is the message by which
    a better network was passed over, empty when there was none.
    """

    name: str
    provider: str = ""
    nics: int | None = None
    why_not: str = ""

    @property
    def efa(self) -> bool:
        """True when traffic goes over EFA: libfabric with its provider ``efa`` or ``efa-direct``."""
        return "libfabric" in self.name.lower() and self.provider.split(";")[0].startswith("efa")


def network_of(lines: Iterable[str]) -> Network | None:
    """The network that NCCL decided on; None as long as the lines do not say. The last decision counts."""
    name, provider, nics, why = "", "", None, ""
    for line in lines:
        if found := _PROVIDER.search(line):
            provider, nics = found["provider"], int(found["nics"]) if found["nics"] else nics
        elif found := _USING.search(line):
            name = found["name"]
        elif not why and (found := _WHY.search(line)):
            why = found["why"].strip()[:_LONGEST]
    return Network(name, provider, nics, why) if name else None


def slow(network: Network, interfaces: int | None = None) -> str:
    """One sentence when a machine with EFA trains over something else; empty when all is well.

    ``interfaces`` is how many EFA interfaces a node of this type has, where that is known.
    """
    if not network.efa:
        over = "plain TCP sockets" if network.name == "Socket" else f"{network.name} {network.provider}".strip()
        why = f": {network.why_not.rstrip('. ')}" if network.why_not else ""
        return (
            f"NCCL talks to the other nodes over {over}, not over EFA{why}. Check that the image has aws-ofi-nccl "
            "and libfabric, that EFA devices were asked for, and that the security group lets its members talk; "
            f"env {NETWORK_VARIABLE}: any goes on without EFA"
        )
    if interfaces and network.nics and network.nics < interfaces:
        return (
            f"NCCL found {network.nics} of the node's {interfaces} EFA interfaces. Ask for all of them, or set env "
            f"{NETWORK_VARIABLE}: any"
        )
    return ""
