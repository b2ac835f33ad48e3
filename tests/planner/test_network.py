"""Collectives: published nccl-tests curves, node boundaries, contention."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.facts import instances
from trainwright.planner.constants import constants_for
from trainwright.planner.inputs import machine_of
from trainwright.planner.network import Group, Network, group
from trainwright.planner.workload import Machine

MB = 2**20


def _network(name: str, nodes: int, **changes: float) -> Network:
    machine = replace(machine_of(instances.get(name), nodes), **changes)  # type: ignore[arg-type]
    return Network(machine, constants_for(machine.accelerator, machine.fabric, "megatron").network)


@pytest.mark.parametrize(
    ("size", "microseconds"),
    [(MB, 27.37), (4 * MB, 54.19), (16 * MB, 123.8), (64 * MB, 324.7), (256 * MB, 1112.5), (1024 * MB, 4029.4)],
)
def test_all_reduce_in_one_h100_node_follows_the_published_curve(size: int, microseconds: float) -> None:
    got = _network("dgx-h100", 1).all_reduce(size, Group(8, 1))
    assert got * 1e6 == pytest.approx(microseconds, rel=0.12)


@pytest.mark.parametrize(("size", "busbw"), [(128 * MB, 289), (512 * MB, 393), (1024 * MB, 437), (4096 * MB, 466)])
def test_all_reduce_on_two_p5_follows_the_published_curve(size: int, busbw: float) -> None:
    seconds = 2 * 15 / 16 * size / (busbw * 1e9)
    assert _network("p5.48xlarge", 2).all_reduce(size, Group(8, 2)) == pytest.approx(seconds, rel=0.15)


@pytest.mark.parametrize(("size", "busbw"), [(128 * MB, 64.3), (1024 * MB, 76.8), (2048 * MB, 78.3)])
def test_all_reduce_on_two_p4de_follows_the_published_curve(size: int, busbw: float) -> None:
    seconds = 2 * 15 / 16 * size / (busbw * 1e9)
    assert _network("p4de.24xlarge", 2).all_reduce(size, Group(8, 2)) == pytest.approx(seconds, rel=0.15)


@pytest.mark.parametrize(
    ("size", "stride", "expected"),
    [(8, 1, Group(8, 1)), (16, 1, Group(8, 2)), (4, 8, Group(1, 4)), (8, 4, Group(2, 4)), (1, 8, Group(1, 1))],
)
def test_groups_lie_where_the_mesh_puts_them(size: int, stride: int, expected: Group) -> None:
    assert group(size, stride, 8) == expected


def test_ranks_that_talk_at_once_share_the_interfaces() -> None:
    """Eight groups of one rank per node get an eighth of the node each; one group of eight gets all of it."""
    network = _network("dgx-a100", 4)
    alone, shared = network.all_reduce(1 << 30, Group(8, 4)), network.all_reduce(1 << 30, Group(1, 4))
    assert shared > 4 * alone


def test_nvlink_pairs_fall_back_to_pcie_beyond_two() -> None:
    network = _network("dgx-a100", 1, fabric="nvlink_pairs")  # type: ignore[arg-type]
    assert network.all_reduce(1 << 28, Group(4, 1)) > 3 * network.all_reduce(1 << 28, Group(2, 1))


@given(st.integers(1, 10**10), st.sampled_from([Group(2, 1), Group(8, 1), Group(8, 4), Group(1, 16)]))
def test_more_bytes_never_take_less_time(size: int, g: Group) -> None:
    network = _network("dgx-h100", 16)
    for collective in (network.all_reduce, network.all_gather, network.all_to_all):
        assert collective(2.0 * size, g) >= collective(float(size), g) > 0


@given(st.integers(1, 10**10), st.floats(1.0, 10.0))
def test_more_bandwidth_is_never_slower(size: int, factor: float) -> None:
    base: Machine = machine_of(instances.get("dgx-h100"), 4)
    faster = replace(
        base, intra_bandwidth=base.intra_bandwidth * factor, inter_bandwidth=base.inter_bandwidth * factor
    )
    constants = constants_for("h100", "nvswitch", "megatron").network
    for g in (Group(8, 1), Group(8, 4), Group(1, 4)):
        assert Network(faster, constants).all_reduce(size, g) <= Network(base, constants).all_reduce(size, g)
