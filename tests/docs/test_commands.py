"""What README and docs tell people to type: README's commands are run, the options of every other one exist.

A command in a ```bash block is run as it stands, unless the block is marked ``<!-- no-run: reason -->``. Indented
lines in docs are synopses with placeholders; their verbs and options are held against the command line's own help.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.cli import main
from trainwright.cli.verbs import GROUPS, VERBS
from trainwright.spec.load import load

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
_FENCE = re.compile(r"(?:<!-- no-run: (?P<why>[^>]+) -->\n)?```(?P<language>\w+)[^\n]*\n(?P<body>.*?)```", re.DOTALL)


def blocks(path: Path, language: str) -> list[tuple[str, str | None]]:
    """(body, reason not to run it or None) of each fenced block of a language."""
    return [(m["body"], m["why"]) for m in _FENCE.finditer(path.read_text()) if m["language"] == language]


def commands() -> list[str]:
    found = []
    for path in PAGES:
        for body, why in blocks(path, "bash"):
            if why is None:
                found += [line.split(" #")[0].strip() for line in body.splitlines() if line.strip()]
    return found


def synopses() -> list[tuple[str, str]]:
    """(page, line) of each indented or unrun line that starts with the command."""
    found = []
    for path in PAGES:
        unrun = [line for body, why in blocks(path, "bash") if why for line in body.splitlines()]
        indented = [line for line in path.read_text().splitlines() if line.startswith("    ")]
        for line in (*indented, *unrun):
            text = line.strip().removeprefix(".venv/bin/")
            if text.startswith("trainwright "):
                found.append((path.name, text))
    return found


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_runs(command: str) -> None:
    words = shlex.split(command)
    assert words[0] == "trainwright", f"mark the block with <!-- no-run: reason -->, or say how to run {command}"
    done = subprocess.run([sys.executable, "-m", *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("page", "line"), synopses())
def test_the_verbs_and_options_of_a_synopsis_exist(page: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = line.split("   ")[0].split(" #")[0].split()[1:]
    verb = words[:2] if words[0] in GROUPS else words[:1]
    assert verb[0] in VERBS or verb[1] in GROUPS[verb[0]].verbs, f"{page}: no such verb in {line!r}"
    with pytest.raises(SystemExit) as left:
        main([*verb, "--help"])
    told = capsys.readouterr().out
    assert left.value.code == 0
    for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(words)):
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", told), f"{page}: {' '.join(verb)} has no {option}"


def test_the_pages_link_to_files_that_exist() -> None:
    missing = [
        f"{path.name}: {link}"
        for path in PAGES
        for link in re.findall(r"\]\((?!https?://|#)([^)#]+)\)", path.read_text())
        if not (path.parent / link).exists()
    ]
    assert missing == []


def test_the_readme_is_short_and_starts_with_the_two_commands() -> None:
    lines = (REPOSITORY / "README.md").read_text().splitlines()
    assert len(lines) < 150
    assert [line.split("#")[0].strip() for line in lines[2:4]] == ["make run", "make test"]


def test_the_readmes_spec_loads(tmp_path: Path) -> None:
    specs = [body for body, _ in blocks(REPOSITORY / "README.md", "yaml") if "version: 1" in body]
    assert specs
    for number, body in enumerate(specs):
        path = tmp_path / f"{number}.yaml"
        path.write_text(body)
        assert load(path).spec.data is not None


def test_the_readmes_errors_are_those_that_are_told() -> None:
    (shown,) = [body for body, _ in blocks(REPOSITORY / "README.md", "text")]
    golden = (REPOSITORY / "tests" / "spec" / "fixtures" / "many_problems.txt").read_text()
    for line in shown.strip().splitlines():
        assert line.partition(":")[2] in golden


def test_make_knows_the_targets_that_pages_name() -> None:
    assert shutil.which("make")
    said = re.compile(r"(?:^|`|\s{4})make ([a-z][a-z0-9-]*)", re.MULTILINE)
    named = {target for path in PAGES for target in said.findall(path.read_text())}
    makefile = (REPOSITORY / "Makefile").read_text()
    assert [target for target in sorted(named) if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
