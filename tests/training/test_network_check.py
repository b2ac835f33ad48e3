"""When NCCL's log is watched, and what of it counts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from trainwright.training.network_check import NetworkCheck

EFA = {"TRAINWRIGHT_NETWORK": "efa"}


def write(folder: Path, text: str, number: int = 1) -> None:
    (folder / f"nccl-{socket.gethostname()}-{number}.txt").write_text(text)


@pytest.mark.parametrize("environment", [{}, {"TRAINWRIGHT_NETWORK": "any"}, {**EFA, "NCCL_DEBUG": "WARN"}])
def test_nothing_is_changed_where_efa_is_not_meant_or_the_user_debugs(
    environment: dict[str, str], tmp_path: Path
) -> None:
    check = NetworkCheck(tmp_path, environment)
    write(tmp_path, "n1:1:2 [0] NCCL INFO Using network Socket\n")
    assert (check.variables(), check.look()) == ({}, "")


def test_each_ranks_log_is_judged_once_it_says_what_it_uses(tmp_path: Path) -> None:
    check = NetworkCheck(tmp_path, EFA)
    assert check.variables()["NCCL_DEBUG"] == "INFO"
    good = "n1:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)\nn1:1:2 [0] NCCL INFO Using network "
    write(tmp_path, good)
    assert check.look() == ""  # the last line is not whole yet
    write(tmp_path, good + "AWS Libfabric\n")
    assert check.look() == ""
    write(tmp_path, "n1:3:4 [1] NCCL INFO Using network Socket\n", 2)
    assert "not over EFA" in check.look()
    assert check.told == check.look()


def test_logs_of_other_nodes_are_theirs_to_judge(tmp_path: Path) -> None:
    (tmp_path / "nccl-elsewhere-1.txt").write_text("n9:1:2 [0] NCCL INFO Using network Socket\n")
    assert NetworkCheck(tmp_path, EFA).look() == ""
