"""The text of an sbatch file: options that disappear, quoting that a real shell undoes, secrets by reference."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.targets.slurm.script import Container, Directive, Shell, Step, quote, sbatch, steps_file

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize(
    ("directive", "line"),
    [
        (Directive("nodes", 2), "#SBATCH --nodes=2"),
        (Directive("mem", 0, "all"), "#SBATCH --mem=0  # all"),
        (Directive("requeue"), "#SBATCH --requeue"),
        (Directive("qos", None), ""),
        (Directive("exclusive", False), ""),
        (Directive("job-name", "a b#c"), '#SBATCH --job-name="a b#c"'),
        (Directive("comment", 'say "x" \\'), '#SBATCH --comment="say \\"x\\" \\\\"'),
        (Directive("output", "logs/slurm-%j.log"), "#SBATCH --output=logs/slurm-%j.log"),
    ],
)
def test_one_option(directive: Directive, line: str) -> None:
    assert directive.line() == line


@settings(max_examples=15, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=40))
def test_a_real_shell_gives_every_text_back(texts: list[str]) -> None:
    words = " ".join(map(quote, texts))
    assert "\n" not in words
    assert "\r" not in words
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == texts


def body(shell: Shell, container: Container | None = None, steps: tuple[Step, ...] = (Step("train"),)) -> str:
    return sbatch(heading="x", directives=[], shell=shell, steps=steps, stage="train", container=container)


def test_variables_and_secrets_are_set_and_a_missing_secret_is_named_without_its_value(tmp_path: Path) -> None:
    file = tmp_path / "it's a file"
    file.write_text("from a file\n")
    shell = Shell(
        defaults=(("KEPT", "default", "why"), ("TAKEN", "default", "why")),
        environment={"KEPT": "mine", "ODD": "a'b\n$c"},
        secrets={"ONE": ("env", "SOURCE"), "TWO": ("file", str(file))},
    )
    text = body(shell).split("# ---- the run")[0] + 'printf "%s|" "$KEPT" "$TAKEN" "$ODD" "$ONE" "$TWO"'
    good = subprocess.run(
        ["bash", "-c", text], env={"SOURCE": "s3cret", "PATH": "/usr/bin:/bin"}, capture_output=True
    )
    assert good.stdout.decode() == "mine|default|a'b\n$c|s3cret|from a file|"
    bad = subprocess.run(["bash", "-c", text], env={"PATH": "/usr/bin:/bin"}, capture_output=True)
    assert bad.returncode == 1
    assert "secret ONE: $SOURCE is not set" in bad.stderr.decode()
    assert "s3cret" not in body(shell)


def test_modules_and_the_lines_of_a_site_come_before_strictness() -> None:
    text = body(Shell(modules=("cuda/12.6",), setup=(". /opt/venv/bin/activate",)))
    assert text.index("module load cuda/12.6") < text.index("activate") < text.index("set -euo pipefail")


def test_containers_are_entered_by_srun_or_by_the_command() -> None:
    pyxis = body(Shell(), Container("pyxis", "nvcr.io#nvidia/pytorch:26.01", ("/a:/a", "/b:/b")))
    assert "pyxis=(--container-image='nvcr.io#nvidia/pytorch:26.01' --container-mounts=/a:/a,/b:/b) enter=()" in pyxis
    apptainer = body(Shell(), Container("apptainer", "/images/x y.sif", ("/a:/a",), nvidia=True))
    assert "pyxis=() enter=(apptainer exec --nv --bind /a:/a '/images/x y.sif')" in apptainer


def test_arguments_of_a_step_are_expanded_on_the_node() -> None:
    text = body(Shell(), steps=(Step("train", ("--node-rank", '"$SLURM_NODEID"')), Step("report", required=False)))
    assert """run_step train '--node-rank "$SLURM_NODEID"'""" in text
    assert "(optional=1; run_step report) || echo" in text


@pytest.mark.parametrize("text", [steps_file(), body(Shell(environment={"A": "b"}, secrets={"S": ("env", "T")}))])
def test_the_shell_accepts_it(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("signal", "code"), [("USR1", "75"), ("TERM", "75"), ("KILL", "137")])
def test_a_signal_before_python_listens_is_a_wish_to_resume(tmp_path: Path, signal: str, code: str) -> None:
    """Slurm may send it in the first second of a step; an interpreter that is still starting dies of it."""
    text = steps_file()
    function = text[text.index("on_node()") : text.index("\nbetween()")]
    python = tmp_path / "python"
    python.write_text(f"#!/bin/bash\nkill -{signal} $$\nsleep 5\n")
    python.chmod(0o755)
    (tmp_path / "logs" / "1").mkdir(parents=True)
    script = f"enter=()\n{function}\non_node train\n"
    environment = {
        "TRAINWRIGHT_RUN_DIR": str(tmp_path), "SLURM_SUBMIT_DIR": str(tmp_path), "TRAINWRIGHT_PYTHON": str(python),
        "TRAINWRIGHT_ATTEMPT": "1", "SLURM_NODEID": "0", "PATH": "/usr/bin:/bin",
    }  # fmt: skip
    subprocess.run(["bash", "-c", script], env=environment, capture_output=True, timeout=20, check=False)
    assert (tmp_path / "logs" / "1" / "train-0.exit").read_text().strip() == code
