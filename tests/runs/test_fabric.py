"""Which network NCCL says it uses, in the words of several releases of NCCL and of its OFI plugin."""

from __future__ import annotations

import pytest

from trainwright.runs.fabric import Network, network_of, slow

HEAD = "ip-10-0-0-7:4411:4502 [3] NCCL INFO "
EFA_NEW = [
    HEAD + "NET/OFI Initializing aws-ofi-nccl 1.16.0",
    HEAD + "NET/OFI Using transport protocol RDMA (platform set)",
    HEAD + "NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)",
    HEAD + "Using network Libfabric",
]
EFA_OLD = [
    HEAD + "NET/OFI Selected Provider is efa (found 4 nics)",
    HEAD + "Using network AWS Libfabric",
]
TCP = [
    HEAD + "NET/Plugin: Could not find: libnccl-net.so. ",
    HEAD + "NET/Socket : Using [0]eth0:10.0.0.7<0>",
    HEAD + "Using network Socket",
]
PLUGIN_FAILED = [
    HEAD + "NET/OFI Initializing aws-ofi-nccl 1.7.4-aws",
    "ip-10-0-0-7:4411:4502 [3] NCCL WARN NET/OFI Unable to find a protocol that worked.  Failing initialization.",
    HEAD + "Using network Socket",
]
OVER_TCP_PROVIDER = [
    HEAD + "NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)",
    HEAD + "Using network AWS Libfabric",
]


@pytest.mark.parametrize(
    ("lines", "network"),
    [
        (EFA_NEW, Network("Libfabric", "efa", 32)),
        (EFA_OLD, Network("AWS Libfabric", "efa", 4)),
        (TCP, Network("Socket", why_not="NET/Plugin: Could not find: libnccl-net.so.")),
        (OVER_TCP_PROVIDER, Network("AWS Libfabric", "tcp;ofi_rxm", 1)),
        ([HEAD + "NET/IB : Using [0]mlx5_0:1/IB", HEAD + "Using network IB"], Network("IB")),
    ],
)
def test_the_network_is_read_from_nccls_own_words(lines: list[str], network: Network) -> None:
    assert network_of(lines) == network


@pytest.mark.parametrize("lines", [[], EFA_NEW[:3], TCP[:2], ["loss 3.1 Using network of friends"]])
def test_nothing_is_decided_before_nccl_has(lines: list[str]) -> None:
    """The line about NET/Socket alone may be of the first contact, which always goes over sockets."""
    assert network_of(lines) is None


@pytest.mark.parametrize("lines", [EFA_NEW, EFA_OLD])
def test_efa_is_not_complained_about(lines: list[str]) -> None:
    network = network_of(lines)
    assert network is not None
    assert slow(network) == ""


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (TCP, "over plain TCP sockets, not over EFA: NET/Plugin: Could not find: libnccl-net.so."),
        (PLUGIN_FAILED, "not over EFA: NET/OFI Unable to find a protocol that worked"),
        (OVER_TCP_PROVIDER, "over AWS Libfabric tcp;ofi_rxm, not over EFA."),
    ],
)
def test_a_silent_fall_back_is_one_sentence_with_the_cause(lines: list[str], words: str) -> None:
    network = network_of(lines)
    assert network is not None
    assert words in slow(network)
    assert "TRAINWRIGHT_NETWORK: any" in slow(network)


def test_a_part_of_the_interfaces_is_told_where_their_number_is_known() -> None:
    network = network_of(EFA_OLD)
    assert network is not None
    assert slow(network, 4) == ""
    assert "4 of the node's 32 EFA interfaces" in slow(network, 32)
