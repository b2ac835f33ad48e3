"""Hardware facts: complete, sourced, dated, and consistent with each other."""

from __future__ import annotations

import csv
import io

import pytest

from trainwright.errors import InputError
from trainwright.facts import accelerators, instances
from trainwright.facts.data import read_file, read_rows

GIB = 2**30

#: instance, accelerator, count, EFA interfaces, network Gbit/s, vCPU, memory GiB, local NVMe GB: from EC2's own
#: instance type descriptions, one of each family.
EC2 = """\
p4d.24xlarge,a100-40gb,8,4,400,96,1152,8000
p4de.24xlarge,a100-80gb,8,4,400,96,1152,8000
p5.4xlarge,h100,1,1,100,16,256,3800
p5.48xlarge,h100,8,32,3200,192,2048,30400
p5en.48xlarge,h200,8,16,3200,192,2048,30400
p6-b200.48xlarge,b200,8,8,3200,192,2048,30400
p6-b300.48xlarge,b300,8,16,6400,192,4096,30400
g5.48xlarge,a10g,8,1,100,192,768,7600
g6.48xlarge,l4,8,1,100,192,768,7520
g6e.48xlarge,l40s,8,4,400,192,1536,7600
g7e.48xlarge,rtx-pro-server-6000,8,4,1600,192,2048,15200
trn1.32xlarge,trainium,16,8,800,128,512,7600
trn1n.32xlarge,trainium,16,16,1600,128,512,7600
trn2.48xlarge,trainium2,16,16,3200,192,2048,7600
"""


@pytest.mark.parametrize("row", csv.reader(io.StringIO(EC2)), ids=lambda row: row[0])
def test_ec2_types_are_as_ec2_describes_them(row: list[str]) -> None:
    name, accelerator, *numbers = row
    count, efa, network, vcpus, memory, nvme = map(float, numbers)
    found = instances.get(name)
    assert (found.accelerator.name, found.count, found.nics) == (accelerator, count, efa)
    assert found.network_bandwidth == network * 1e9 / 8
    assert (found.vcpus, found.memory, found.nvme) == (vcpus, memory * GIB, nvme * 1e9)


@pytest.mark.parametrize("name", instances.names())
def test_every_instance_is_complete_and_possible(name: str) -> None:
    found = instances.get(name)
    assert found.source
    assert found.date
    assert (found.fabric == "none") == (found.count == 1)
    if found.count > 1:
        assert found.fabric_bandwidth is not None
        assert found.fabric_bandwidth > 0
    assert 0 < found.network_usable <= found.network_bandwidth
    assert found.fabric_domain >= found.count
    assert (found.nic in ("efa", "infiniband")) == (found.nics > 0)


@pytest.mark.parametrize("name", instances.names("ec2"))
def test_pods_never_get_the_whole_node(name: str) -> None:
    found = instances.get(name)
    assert found.allocatable_cpu is not None
    assert found.allocatable_memory is not None
    assert found.memory is not None
    assert found.vcpus is not None
    assert 0.9 * found.vcpus * 1000 < found.allocatable_cpu < found.vcpus * 1000
    assert 0.8 * found.memory < found.allocatable_memory < found.memory


@pytest.mark.parametrize("name", accelerators.names())
def test_every_accelerator_is_sourced_and_usable_memory_is_not_nominal_memory(name: str) -> None:
    chip = accelerators.get(name)
    assert chip.source
    assert chip.date
    assert chip.memory_usable <= chip.memory_nominal
    if chip.memory_usable == chip.memory_nominal:
        assert "not known for certain" in chip.note
    assert (chip.link == "pcie") == (chip.link_bandwidth is None)
    assert chip.peak_flops("bf16") or chip.peak_flops("fp16")


@pytest.mark.parametrize("name", accelerators.names())
def test_narrower_numbers_are_never_slower(name: str) -> None:
    chip = accelerators.get(name)
    half = chip.peak_flops("bf16") or chip.peak_flops("fp16") or 0.0
    assert (chip.peak_flops("fp8") or half) >= half
    assert half >= (chip.peak_flops("tf32") or 0.0)
    assert half >= (chip.peak_flops("fp32") or 0.0)


def test_known_figures() -> None:
    h100 = accelerators.get("h100")
    assert h100.peak_flops("bf16") == pytest.approx(989e12, rel=1e-3)
    assert h100.peak_flops("int4") is None
    assert accelerators.get("A100_80GB").memory_bandwidth == 2039e9
    assert accelerators.get("a100") is accelerators.get("a100-80gb")
    assert 79 * GIB < h100.memory_usable < 80 * GIB


def test_one_network_figure_is_measured_and_says_so() -> None:
    assert instances.get("p4de.24xlarge").network_efficiency == 0.83
    assert "78.3 GB/s" in read_file("instances")["network_efficiency_source"]
    assert instances.get("p5.48xlarge").network_efficiency is None


def test_nvl72_joins_more_accelerators_than_a_node_has() -> None:
    assert instances.get("dgx_gb200").fabric_domain == 72
    assert instances.get("DGX-H100").fabric_domain == 8


def test_unknown_names_say_what_was_meant() -> None:
    with pytest.raises(InputError, match=r"did you mean p5\.48xlarge"):
        instances.get("p5.48xlarg")
    with pytest.raises(InputError, match=r"one of p6-b200\.48xlarge, p6-b300\.48xlarge;"):
        instances.get("p6")
    with pytest.raises(InputError, match="did you mean trainium2"):
        accelerators.get("tranium2")
    with pytest.raises(InputError, match="--machine FILE"):
        instances.get("p5.48xlarg")
    with pytest.raises(InputError, match=r"one of p6-b200\.48xlarge, p6-b300\.48xlarge;"):
        instances.get("p6")


def test_every_instance_refers_to_a_known_accelerator() -> None:
    assert {row["accelerator"] for row in read_rows("instances").values()} <= set(accelerators.names())
