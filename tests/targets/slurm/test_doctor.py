"""What a Slurm lacks for a run is told line by line, each with its fix. The commands are scripts on the path."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.spec.site import SlurmSite
from trainwright.targets.doctor import Check
from trainwright.targets.slurm.client import Client
from trainwright.targets.slurm.doctor import examine
from trainwright.targets.slurm.transport import Local

SINFO = """cat <<'END'
gpu|up|1-00:00:00|2|gpu:a100:8(S:0-1)|96|1100000|idle
gpu|up|1-00:00:00|1|gpu:a100:8|96|1100000|drained*
cpu|up|infinite|4|(null)|16|64000|mixed
old|down|infinite|1|(null)|16|64000|down
END"""
SBATCH = """if [[ $1 == --version ]]; then echo "slurm 22.05.8"; exit; fi
[[ $(cat) == *partition=gpu* ]] && { echo "sbatch: Job 12 to start at 2026-12-01T10:00:00" >&2; exit; }
echo "sbatch: error: Batch job submission failed: Invalid partition name specified" >&2; exit 1"""


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, body in {"sbatch": SBATCH, "sinfo": SINFO}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    return Client(Local(), patience=2.0, sleep=lambda _: None)


def script(**directives: str) -> str:
    lines = [f"#SBATCH --{name.replace('_', '-')}={value}  # why" for name, value in directives.items()]
    return "\n".join(["#!/bin/bash", *lines])


def told(checks: list[Check]) -> dict[str, tuple[str, str]]:
    return {one.what: (one.state, one.detail) for one in checks}


def test_a_run_that_fits_is_told_with_what_there_is(client: Client) -> None:
    text = script(partition="gpu", gpus_per_node="8")
    found = told(examine(client, {"train.sbatch": text}, SlurmSite(partition="gpu")))
    assert found == {
        "version": ("ok", "22.05.8, the suites ran on it"),
        "partition gpu": ("warning", "2 of 3 node(s) usable, time limit 1-00:00:00"),
        "gpu for train.sbatch": ("ok", "nodes have 8, 8 needed"),
        "train.sbatch": ("ok", "sbatch --test-only: Job 12 to start at 2026-12-01T10:00:00"),
    }


@pytest.mark.parametrize(
    ("directives", "what", "words"),
    [
        ({"partition": "gpuu"}, "partition gpuu", "is not there"),
        ({"partition": "old"}, "partition old", "is down"),
        ({"partition": "cpu", "gres": "gpu:1"}, "gpu for t", "no node of the partition declares it"),
        ({"partition": "gpu", "gres": "gpu:a100:16"}, "gpu:a100 for t", "8 at most, 16 needed"),
        ({"partition": "gpu", "gres": "gpu:h100:1"}, "gpu:h100 for t", "no node"),
        ({"partition": "cpu"}, "t", "partition"),
    ],
)
def test_what_is_missing_is_told(client: Client, directives: dict[str, str], what: str, words: str) -> None:
    checks = {one.what: one for one in examine(client, {"t": script(**directives)}, SlurmSite())}
    assert checks[what].state == "missing"
    assert words in checks[what].detail
    assert checks[what].fix


def test_without_a_spec_every_partition_is_told(client: Client) -> None:
    found = told(examine(client, {}, SlurmSite()))
    assert list(found) == ["version", "partition cpu", "partition gpu", "partition old"]


def test_a_dry_run_says_what_slurm_says_and_raises_what_it_refuses(client: Client) -> None:
    assert client.try_out(script(partition="gpu"), name="t") == "Job 12 to start at 2026-12-01T10:00:00"
    with pytest.raises(InputError, match="Slurm refuses the job"):
        client.try_out(script(partition="x"), name="t")
