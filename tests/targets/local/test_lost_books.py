"""Files of a live run that somebody deleted: it is still listed, found and stopped."""

from __future__ import annotations

import shutil

import pytest
from local_machine import UNTIL_STOPPED, Machine, gone, script

from trainwright.runs.folder import find, list_runs
from trainwright.targets.local.target import Local


@pytest.mark.parametrize("lost", ["bundle", "spec.yaml", "job.json"])
def test_a_live_run_whose_books_are_lost_is_listed_and_can_be_cancelled(machine: Machine, lost: str) -> None:
    ref = machine.submit(script("train", UNTIL_STOPPED))
    pid = machine.training(ref)
    run = Local().folder(ref)
    if (run.root / lost).is_dir():
        shutil.rmtree(run.root / lost)
    else:
        (run.root / lost).unlink()
    assert [found.run_id for found in list_runs(run.root.parent)] == [run.run_id]
    assert find(run.run_id, run.root.parent) == run
    assert find(str(run.root)) == run
    Local().cancel(ref)
    assert gone(pid)
