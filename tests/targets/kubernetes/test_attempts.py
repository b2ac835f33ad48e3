"""Nodes of a gang agree on the attempt they are in, whoever of them is replaced and in whatever order."""

from __future__ import annotations

from pathlib import Path

from trainwright.runs.folder import RunFolder
from trainwright.targets.kubernetes.attempts import Member


def members(tmp_path: Path, digest: str = "d") -> tuple[Member, Member]:
    run = RunFolder(tmp_path / "demo-00000000")
    return Member(run, "train", 0, digest), Member(run, "train", 1, digest)


def test_nodes_that_start_together_join_one_attempt(tmp_path: Path) -> None:
    one, two = members(tmp_path)
    assert (one.start(), two.start()) == (1, 1)
    assert not one.abandoned(1)
    assert not two.abandoned(1)


def test_when_one_fails_all_meet_in_the_next_attempt(tmp_path: Path) -> None:
    one, two = members(tmp_path)
    one.start(), two.start()
    two.end(1, 70)
    assert one.abandoned(1)
    one.end(1, 75)
    assert (two.start(), one.start()) == (2, 2)
    assert not one.abandoned(2)


def test_the_successor_of_a_node_that_was_lost_without_a_word_draws_the_others_on(tmp_path: Path) -> None:
    one, two = members(tmp_path)
    one.start(), two.start()
    assert two.start() == 2  # the new pod of node 1
    assert one.abandoned(1)
    one.end(1, 75)
    assert one.start() == 2
    assert not two.abandoned(2)


def test_a_node_that_failed_before_others_came_does_not_leave_them_alone(tmp_path: Path) -> None:
    one, two = members(tmp_path)
    one.start()
    one.end(1, 70)
    assert two.start() == 2
    assert one.start() == 2


def test_what_another_node_finished_is_finished_for_this_spec_only(tmp_path: Path) -> None:
    one, two = members(tmp_path)
    one.start(), two.start()
    one.end(1, 0)
    assert two.complete()
    assert not two.abandoned(1)
    assert not members(tmp_path, "longer")[1].complete()


def test_stages_and_foreign_files_are_not_mixed_up(tmp_path: Path) -> None:
    one, _ = members(tmp_path)
    one.start()
    (one.run.logs / "1" / "train-x.exit").write_text("?")
    (one.run.logs / "1" / "train-7.exit").write_text("garbage")
    (one.run.logs / "slurm").mkdir()
    assert [(mark.node, mark.code) for mark in one.marks()] == [(0, 0), (7, 1)]
    assert Member(one.run, "prepare", 0, "d").start() == 1
