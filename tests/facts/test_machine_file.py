"""Bring your own machine: a file says it all, or changes a known one; all that is wrong is told at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.facts import instances, machine_file

WHOLE = """\
accelerator: h100
count: 4
fabric: nvlink_pairs
fabric_gb_s: 300
network_gbps: 200
nics: 2
nic: roce
memory_gib: 512
usd_per_hour: 9.5
calibration:
  matmul_efficiency: 0.71
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_a_file_describes_a_machine(tmp_path: Path) -> None:
    machine = machine_file.find(str(write(tmp_path / "lab.yaml", WHOLE)))
    assert (machine.name, machine.accelerator.name, machine.count) == ("lab", "h100", 4)
    assert machine.fabric_bandwidth == 300e9
    assert machine.network_bandwidth == 25e9
    assert machine.memory == 512 * 2**30
    assert machine.usd_per_hour == 9.5
    assert machine.calibration == {"matmul_efficiency": 0.71}


def test_a_base_is_kept_but_for_what_is_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.yaml", "base: dgx-h100\nnetwork_gbps: 800\n")
    machine, base = machine_file.read(path), instances.get("dgx-h100")
    assert machine.network_bandwidth == 100e9
    assert (machine.accelerator, machine.count, machine.fabric) == (base.accelerator, base.count, base.fabric)
    assert machine.fabric_bandwidth == base.fabric_bandwidth
    assert (machine.name, machine.source) == ("mine", "")


def test_another_accelerator_in_a_base_brings_its_own_link(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.yaml", "base: dgx-h100\naccelerator: b200\n")
    assert machine_file.read(path).fabric_bandwidth == 900e9


def test_an_unknown_accelerator_is_described_by_its_figures(tmp_path: Path) -> None:
    chip = {"name": "x1", "memory_nominal_gib": 64, "memory_gb_s": 2000, "tflops": {"bf16": 400}, "link_gb_s": 200}
    text = json.dumps({"accelerator": chip, "count": 8, "fabric": "nvlink", "network_gbps": 400})
    machine = machine_file.read(write(tmp_path / "x.json", text))
    assert machine.accelerator.peak_flops("bf16") == 400e12
    assert machine.memory_usable == 64 * 2**30
    assert machine.fabric_bandwidth == 200e9


def test_names_that_are_not_files_are_instances() -> None:
    assert machine_file.find("p5.48xlarge") is instances.get("p5.48xlarge")
    with pytest.raises(InputError, match="no such file"):
        machine_file.find("nowhere.yaml")


def test_every_problem_is_told_with_its_line(tmp_path: Path) -> None:
    path = write(
        tmp_path / "bad.yaml",
        "accelerator: h1000\ncount: -1\nfabrik: nvswitch\nnetwork_gbps: fast\nnetwork_efficiency: 2\n",
    )
    with pytest.raises(InputError) as caught:
        machine_file.read(path)
    told = {(problem.field, problem.line) for problem in caught.value.problems}
    assert told == {
        ("accelerator", 1),
        ("count", 2),
        ("fabrik", 3),
        ("network_gbps", 4),
        ("network_efficiency", 5),
    }
    assert "did you mean fabric?" in str(caught.value)
    assert "did you mean h100" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("count: 8\n", "accelerator: is missing"),
        ("accelerator: h100\ncount: 8\nnetwork_gbps: 100\n", "fabric: is missing"),
        ("accelerator: {tflops: {bf16: 1}}\ncount: 1\nnetwork_gbps: 1\n", "lacks memory_nominal_gib, memory_gb_s"),
        ("base: p55\n", "base"),
        ("- a\n", "is not a mapping"),
        ("a: [1\n", "is not YAML"),
        ("date: 2026-13-45\n", "cannot be read: month must be in 1..12"),
        ("base: dgx-h100\ndate: [soon]\n", "a date such as 2026-07-20 is needed"),
        ("base: dgx-h100\ncount: 8\ncount: 4\n", "bad.yaml:3: count: is given twice, first in line 2"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        machine_file.read(write(tmp_path / "bad.yaml", text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"count": ' + "9" * 5000 + "}", "too long to be read"),
        ('{"count": 8, "count": 4}', "count: is given twice"),
    ],
)
def test_json_that_cannot_be_read_says_why(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        machine_file.read(write(tmp_path / "bad.json", text))


def test_a_name_longer_than_a_files_can_be_is_told() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        machine_file.find("x" * 5000)


def test_the_documented_machine_file_is_read_and_every_key_is_documented(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "planner.md").read_text("utf-8")
    block = page.split("```yaml\n# own.yaml\n")[1].split("```")[0]
    machine = machine_file.read(write(tmp_path / "own.yaml", block))
    assert (machine.count, machine.accelerator.name, machine.usd_per_hour) == (8, "h100", 20.0)
    section = page.split("## Your own machine")[1].split("\n## ")[0]
    for key in (*machine_file._FIELDS, "base", "accelerator"):
        assert f"`{key}`" in section or f"{key}:" in section, key
