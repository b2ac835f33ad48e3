"""Node types join the planner's instances with older EC2 types."""

from __future__ import annotations

import pytest

from trainwright.facts import node_types
from trainwright.facts.data import read_rows


@pytest.mark.parametrize(
    ("name", "resource", "count", "efa"),
    [
        ("p5.48xlarge", "nvidia.com/gpu", 8, 32),
        ("p3dn.24xlarge", "nvidia.com/gpu", 8, 1),
        ("g5.xlarge", "nvidia.com/gpu", 1, 0),
        ("trn1.32xlarge", "aws.amazon.com/neuron", 16, 8),
    ],
)
def test_a_type_says_what_a_node_offers(name: str, resource: str, count: int, efa: int) -> None:
    found = node_types.get(name)
    assert found is not None
    assert (found.resource, found.count, found.efa) == (resource, count, efa)


def test_a_device_of_trn2_serves_four_processes_and_one_of_trn1_two() -> None:
    first, second = node_types.get("trn1.32xlarge"), node_types.get("trn2.48xlarge")
    assert first is not None
    assert second is not None
    assert (first.logical_cores_per_device, second.logical_cores_per_device) == (2, 4)


def test_what_is_no_accelerated_ec2_type_is_none() -> None:
    assert node_types.get("m5.large") is None
    assert node_types.get("dgx-h100") is None


def test_every_row_of_both_tables_can_be_read() -> None:
    rows = [*read_rows("node_types"), *(n for n, row in read_rows("instances").items() if row["provider"] == "ec2")]
    assert all(node_types.get(name) is not None for name in rows)
