"""``trainwright checkpoint``: what it says, its JSON and its exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trainwright.checkpoints.format import folder_name, step_folders, step_of
from trainwright.checkpoints.store import LocalStore
from trainwright.cli import main

from .conftest import save_steps
from .faults import flip_bit


class Answer(NamedTuple):
    """Exit code and what was printed."""

    code: int
    text: str
    error: str

    @property
    def value(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.text)


Ask = Callable[..., Answer]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Call the command line in this process."""

    def call(*arguments: object) -> Answer:
        with pytest.raises(SystemExit) as left:
            main(["checkpoint", *map(str, arguments)])
        out, err = capsys.readouterr()
        return Answer(int(left.value.code or 0), out, err)

    return call


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """Checkpoints 1, 2 and 3."""
    shutil.copytree(template, tmp_path / "c")
    save_steps(tmp_path / "c", 3)
    return tmp_path / "c"


def steps_in(folder: Path) -> list[int | None]:
    return [step_of(path.name) for path in step_folders(folder)]


def test_ls_shows_each_checkpoint_and_visible_damage(ask: Ask, folder: Path) -> None:
    (folder / folder_name(2) / "trainer.json").unlink()
    answer = ask("ls", folder)
    lines = answer.text.splitlines()
    assert answer.code == 0
    assert lines[0].startswith("step 3 ")
    assert "3 samples, 3 tokens" in lines[0]
    assert lines[0].endswith("complete, bytes not read")
    assert lines[1].endswith("DAMAGED: trainer.json is missing")
    rows = ask("ls", folder, "-o", "json").value
    assert [(row["step"], row["ok"]) for row in rows] == [(3, True), (2, False), (1, True)]


def test_verify_reads_the_newest(ask: Ask, folder: Path) -> None:
    assert ask("verify", folder).code == 0
    flip_bit(folder / folder_name(3) / "__0_0.distcp", 20000)
    answer = ask("verify", folder)
    assert answer.code == 1
    assert "__0_0.distcp was changed" in answer.text
    assert ask("verify", folder, "--step", 2).code == 0
    rows = ask("verify", folder, "--all", "-o", "json")
    assert rows.code == 1
    assert [row["ok"] for row in rows.value] == [False, True, True]


def test_verify_of_a_step_that_is_not_there_names_those_that_are(ask: Ask, folder: Path) -> None:
    answer = ask("verify", folder, "--step", 9)
    assert answer.code == 2
    assert "holds no checkpoint of step 9; steps there: 3, 2, 1" in answer.error


def test_prune_keeps_the_newest(ask: Ask, folder: Path) -> None:
    (folder / "step-00000009.tmp-0123456789ab").mkdir()
    dry = ask("prune", folder, "--keep", 1, "--dry-run")
    assert dry.text.startswith("step 3 is whole; would delete step 1, step 2, step-00000009.tmp-0123456789ab (")
    assert steps_in(folder) == [3, 2, 1]
    assert ask("prune", folder, "--keep", 1, "-o", "json").value["steps"] == [1, 2]
    assert sorted(path.name for path in folder.iterdir()) == [".writer.lock", folder_name(3)]


def test_prune_deletes_nothing_when_the_newest_is_damaged(ask: Ask, folder: Path) -> None:
    flip_bit(folder / folder_name(3) / "__0_0.distcp", 20000)
    answer = ask("prune", folder, "--keep", 1)
    assert answer.code == 1
    assert "step-00000003 is damaged: __0_0.distcp was changed" in answer.error
    assert steps_in(folder) == [3, 2, 1]


def test_prune_leaves_the_folder_of_a_live_run_alone(ask: Ask, folder: Path) -> None:
    writer = LocalStore(folder)
    assert writer.owned()
    answer = ask("prune", folder, "--keep", 1)
    writer.close()
    assert answer.code == 1
    assert "is being written to by a live run" in answer.error
    assert steps_in(folder) == [3, 2, 1]


def test_the_verbs_import_no_torch(folder: Path) -> None:
    script = (
        "import sys; from trainwright.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: assert 'torch' not in sys.modules"
    )
    for verb in ("ls", "verify", "prune"):
        command = [sys.executable, "-c", script, "checkpoint", verb, str(folder)]
        subprocess.run(command, check=True, capture_output=True, env=dict(os.environ))
