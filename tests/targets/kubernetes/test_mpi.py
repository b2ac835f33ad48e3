"""mpirun starts one process a node with the container's environment, and the launcher keeps the budgets."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from trainwright.spec.model import Retry
from trainwright.targets.kubernetes import mpi, mpijob
from trainwright.targets.kubernetes.attempts import Mark


@pytest.mark.parametrize(
    ("codes", "mpirun", "expected"),
    [
        ([0, 0], 0, 0),
        ([75, 75], 0, 75),
        ([75, 0], 0, 75),
        ([75, 1], 1, 1),
        ([70, 75], 70, 70),
        ([70, 76], 70, 76),
        ([], 1, 70),
        ([], 255, 70),
        ([0], 137, 70),
    ],
)
def test_the_nodes_say_more_than_mpirun(codes: list[int], mpirun: int, expected: int) -> None:
    marks = [Mark(3, node, True, code) for node, code in enumerate(codes)] + [Mark(2, 0, True, 1)]
    assert mpi.outcome(marks, 3, mpirun) == expected


def test_the_launcher_starts_again_within_the_budgets() -> None:
    def run(*ends: tuple[int, int | None], retry: Retry) -> tuple[int, int]:
        left = list(ends)
        return mpi.follow(lambda: left.pop(0), retry, lambda _: None), len(left)

    assert run((70, None), (75, 10), (0, 20), retry=Retry()) == (0, 0)
    assert run((1, None), (0, 1), retry=Retry()) == (1, 1)
    assert run((1, None), (0, 1), retry=Retry(user=1)) == (0, 0)
    assert run((70, None), (70, None), (0, 1), retry=Retry(infrastructure=1)) == (70, 1)


def test_a_launcher_that_was_asked_to_end_does_not_start_again() -> None:
    asked = [False, True]
    assert mpi.follow(lambda: (75, 3), Retry(), lambda _: None, stopped=lambda: asked.pop(0) or bool(asked)) == 75


def test_the_environment_of_the_container_arrives_byte_for_byte() -> None:
    text = 'line 1\nline 2 = "x" $(Y) ü'
    kept = b"\0".join(f"{k}={v}".encode() for k, v in {"A": text, "B": "", "C": "a=b"}.items())
    assert mpi.container_environment(kept) == {"A": text, "B": "", "C": "a=b"}


def test_the_words_that_renderer_and_pods_share_are_the_same() -> None:
    assert mpijob.LAUNCHER_VARIABLE == mpi.LAUNCHER_VARIABLE
    assert str(mpi.ready_file()) == mpijob.READY
    words = mpi.mpirun("/usr/bin/mpirun", 4, ["agent"], root=True)
    assert words == [
        "/usr/bin/mpirun", "--allow-run-as-root", "-np", "4", "--map-by", "ppr:1:node", "--bind-to", "none", "agent",
    ]  # fmt: skip


def test_a_user_that_the_image_does_not_know_is_told_how_to_make_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 99_999)
    with pytest.raises(mpi.InputError, match=r"no user 99999.*useradd --uid 99999"):
        mpi.serve(argparse.Namespace(keys="", port=2222))


def test_a_worker_waits_for_its_agent_to_save(tmp_path: Path) -> None:
    saves = (
        "import pathlib, signal, sys, time\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "def save(*_):\n    time.sleep(0.3); (folder / 'saved').write_text(''); sys.exit(75)\n"
        "signal.signal(signal.SIGTERM, save); (folder / 'up').write_text(''); time.sleep(600)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", saves])
    while not (tmp_path / "up").exists():
        time.sleep(0.02)
    pid = tmp_path / "agent.pid"
    pid.write_text(str(child.pid))
    threading.Thread(target=child.wait, daemon=True).start()  # in a pod, sshd reaps it
    mpi.let_save(pid)
    assert (tmp_path / "saved").exists()
    mpi.let_save(tmp_path / "none")
