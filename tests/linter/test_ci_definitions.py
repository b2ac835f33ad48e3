"""The pre-commit hook and the GitHub Action name what there is, and the Action's own script does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from trainwright.linter.detect import EXTENSIONS, language_of


def test_the_hook_takes_every_kind_of_file_that_is_linted(repository: Path) -> None:
    (hook,) = yaml.safe_load((repository / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "trainwright lint"
    pattern = re.compile(hook["files"])
    for extension in EXTENSIONS:
        assert pattern.search(f"deploy/job{extension}")
        assert pattern.search(f"deploy/job{extension}.j2")
    for other in ("model.safetensors", "notes.txt", "yaml"):
        assert not pattern.search(other)
        assert language_of(other, "") == "none"


@pytest.mark.parametrize(("text", "code"), [("a: 1\n", 0), ("a: 1\na: [\n", 1)])
def test_the_action_prints_commands_and_writes_sarif(repository: Path, tmp_path: Path, text: str, code: int) -> None:
    action = yaml.safe_load((repository / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    assert "${{" not in step["run"]
    used = {name.split(".")[1].split()[0] for name in re.findall(r"inputs\.[\w-]+", yaml.safe_dump(step["env"]))}
    assert used == set(action["inputs"])
    program = tmp_path / "trainwright" / "bin" / "trainwright"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trainwright "$@"\n')
    program.chmod(0o755)
    (tmp_path / "job.yaml").write_text(text)
    given = {
        "PATHS": "job.yaml",
        "ARGUMENTS": "--ignore TW9",
        "SARIF_FILE": "out.sarif",
        "RUNNER_TEMP": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={**os.environ, **given, "RUNNER_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("::error file=job.yaml,line=") is bool(code)
    results = json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"]
    assert bool(results) is bool(code)
