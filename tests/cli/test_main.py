"""The command line: light, helpful, and never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainwright import cli
from trainwright.cli import main
from trainwright.cli.verbs import GROUPS, VERBS

HEAVY = ("torch", "transformers", "numpy", "ray", "lightkube", "kubernetes", "matplotlib", "pydantic", "rich")


def trainwright(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainwright", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=60)


def test_help_lists_every_verb_and_imports_none() -> None:
    code = "import sys; from trainwright.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += f"print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
    for name in (*(name for name, verb in VERBS.items() if not verb.hidden), *GROUPS):
        assert f"\n  {name} " in done.stdout


ALL_VERBS = [[name] for name in VERBS] + [[group, name] for group in GROUPS for name in GROUPS[group].verbs]


@pytest.mark.parametrize("verb", ALL_VERBS, ids=" ".join)
def test_every_verb_has_help_and_json(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:  # in this process: 25 interpreters would be slow
        main([*verb, "--help"])
    told = capsys.readouterr()
    assert left.value.code == 0, told
    assert "Usage: " in told.out
    if verb != ["train"]:  # its answer is the exit code that launchers read
        assert "--output" in told.out


def test_offline_verbs_import_nothing_heavy(tmp_path: Path) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text("name: a\nmodel: ./m\ndata: {sources: [./x]}\n")
    code = "import sys; from trainwright.cli import main\n"
    code += f"for verb in (['render', {str(spec)!r}], ['lint', {str(spec)!r}], ['schema']):\n"
    code += "    try: main(verb)\n    except SystemExit as e: assert e.code in (0, None), (verb, e.code)\n"
    code += "print([m for m in ('torch', 'transformers', 'numpy', 'ray', 'lightkube') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--version"], 0, "0."),
        (["rnu"], 2, "no such verb: rnu; did you mean run?"),
        (["schema", "rnu"], 2, "did you mean run?"),
        (["render", "/nowhere.yaml"], 2, "/nowhere.yaml: no such file"),
        (["render", "--nonsense"], 2, "--nonsense"),
        (["init", "/proc/none/x.yaml"], 3, "/proc/none"),
    ],
)
def test_exit_codes_and_sentences(arguments: list[str], code: int, told: str) -> None:
    done = trainwright(*arguments)
    assert done.returncode == code, done.stderr
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_errors_are_json_on_request(tmp_path: Path) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text("name: A\nmdel: x\n")
    done = trainwright("render", str(spec), "--output", "json")
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert answer["exit_code"] == 2
    found = {(p["line"], p["field"]) for p in answer["problems"]}
    assert found == {(1, "name"), (1, "model"), (1, "data"), (2, "mdel")}


def test_init_writes_a_spec_once(tmp_path: Path) -> None:
    assert trainwright("init", cwd=tmp_path).returncode == 0
    assert (tmp_path / "run.yaml").is_file()
    again = trainwright("init", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists" in again.stderr


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m trainwright schema | head -n 1", shell=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""


@pytest.fixture
def interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_before_the_verb_has_begun_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def importing(arguments: list[str]) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr(cli, "_run", importing)
    with pytest.raises(SystemExit) as left:
        cli.main(["ls"])
    assert left.value.code == 130


@pytest.mark.usefixtures("interrupts")
def test_a_second_interrupt_does_not_break_into_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[int] = []
    monkeypatch.setattr(os, "_exit", said.append)
    cli._interrupt_once()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    assert said == []
    monkeypatch.setattr(cli, "_PATIENCE", -1.0)
    signal.raise_signal(signal.SIGINT)
    assert said == [130]


def test_a_job_in_the_background_stays_deaf(interrupts: None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cli._interrupt_once()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    line = f"cd {here}; rmdir {here}; unset TRAINWRIGHT_RUNS; {sys.executable} -m trainwright ls"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        3,
        "trainwright: the folder that you stand in is gone; cd to another one\n",
    )


def test_what_the_machine_refuses_is_told_with_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(kind: str = "run") -> None:
        raise PermissionError(13, "Permission denied", "/there/x.json")

    monkeypatch.setattr(cli, "_load", lambda function: refused)
    assert cli._run(["schema"]) == 3
    assert capsys.readouterr().err == "trainwright: /there/x.json: Permission denied\n"


def test_a_file_that_ends_too_early_is_no_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def reads_on(kind: str = "run") -> None:
        raise EOFError("ended before the end-of-stream marker")

    monkeypatch.setattr(cli, "_load", lambda function: reads_on)
    assert cli._run(["schema"]) == 4
    assert "ended before the end-of-stream marker" in capsys.readouterr().err
