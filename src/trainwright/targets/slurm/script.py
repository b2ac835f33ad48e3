"""The sbatch file of one stage, from plain values to text.

Pure: the same values give the same bytes. It must not know plans, sites or clusters; ``render`` decides the values.
What a value is for stands beside it in the file, because the file is what people read when a job misbehaves.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

STEPS = "steps.sh"  # carried along in every bundle
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


@dataclass(frozen=True)
class Directive:
    """One ``#SBATCH`` line. None and False disappear, True is a bare option; ``why`` becomes its comment."""

    option: str
    value: str | int | bool | None = True
    why: str = ""

    def line(self) -> str:
        """The line, or nothing."""
        if self.value is None or self.value is False:
            return ""
        text = f"--{self.option}" if self.value is True else f"--{self.option}={_directive_value(str(self.value))}"
        return f"#SBATCH {text}" + (f"  # {self.why}" if self.why else "")


@dataclass(frozen=True)
class Step:
    """One verb of trainwright on every node of the job. ``arguments`` are shell words, expanded on the node."""

    name: str
    arguments: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True)
class Container:
    """How the verbs run in an image. ``mounts`` are ``source:target`` pairs of shell words.

    ``variables`` must have their values from the job, whatever the image says of them.
    """

    runtime: Literal["pyxis", "apptainer"]
    image: str
    mounts: tuple[str, ...] = ()
    nvidia: bool = False
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shell:
    """What is set up before the verbs start: modules, lines of the site, variables and references to secrets.

    ``defaults`` are variables that count only where nobody set them, each with its reason. ``secrets`` maps a
    variable to ``("env", NAME)`` or ``("file", PATH)``. ``interpreter`` is a shell word.
    """

    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    defaults: tuple[tuple[str, str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, tuple[Literal["env", "file"], str]] = field(default_factory=dict)
    interpreter: str = "python3"


def sbatch(
    *, heading: str, directives: Sequence[Directive], shell: Shell, steps: Sequence[Step], stage: str,
    container: Container | None = None,
) -> str:  # fmt: skip
    """The file. ``stage`` names it (``bundle/<stage>.sbatch``); the steps run one after the other."""
    lines = [line for directive in directives if (line := directive.line())]
    parts = [
        "\n".join(["#!/bin/bash", *(f"# {line}" for line in heading.splitlines()), *lines]),
        _environment(shell),
        _launch(stage, container),
        "\n".join([*map(_step, steps), *_epilogue(stage)]),
    ]
    return "\n\n".join(parts) + "\n"


def steps_file() -> str:
    """``steps.sh``, which every sbatch file sources."""
    return (Path(__file__).parent / STEPS).read_text("utf-8")


def quote(text: str) -> str:
    """One shell word that is exactly ``text``, on one line: sbatch refuses scripts that hold carriage returns."""
    if not _CONTROL.search(text):
        return shlex.quote(text)
    body = "".join(_escaped(character) for character in text)
    return f"$'{body}'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if _CONTROL.match(character):
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character, f"\\u{ord(character):04x}")
    return character


def _directive_value(text: str) -> str:
    """As sbatch reads it: quoted when it holds blanks, quotes or ``#``, which would begin a comment."""
    if re.fullmatch(r"[^\s#'\"\\]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _environment(shell: Shell) -> str:
    lines = ["# ---- environment"]
    if shell.modules:
        lines.append("type module >/dev/null 2>&1 || . /etc/profile  # a batch job is no login shell")
        lines += [f"module load {quote(module)} || exit 1" for module in shell.modules]
    lines += shell.setup
    # only now: module files and activation scripts often read unset variables
    lines.append("set -euo pipefail")
    lines.append(
        "unset RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT  # of a job that this one was submitted from"
    )
    lines.append("unset SSH_CLIENT SSH2_CLIENT  # with them bash reads ~/.bashrc on each node, which may change PATH")
    lines.append(f"export TRAINWRIGHT_PYTHON={shell.interpreter} PYTHONUNBUFFERED=1")
    lines += [f"export {name}=${{{name}:-{quote(value)}}}  # {why}" for name, value, why in shell.defaults]
    lines += [f"export {name}={quote(value)}" for name, value in shell.environment.items()]
    if shell.secrets:
        lines.append('secret() { echo "trainwright: secret $1: $2" >&2; exit 1; }  # says where, never what')
    for name, (kind, place) in shell.secrets.items():
        if kind == "env":
            missing = f"secret {name} '${place} is not set'"
            lines.append(f'export {name}="${{{place}:-}}"; [ -n "${name}" ] || {missing}')
        else:
            missing = f"secret {name} {quote(f'{place} cannot be read')}"
            lines.append(f'{name}="$(cat -- {quote(place)})" || {missing}; export {name}')
    return "\n".join(lines)


def _launch(stage: str, container: Container | None) -> str:
    pyxis = _pyxis(container) if container and container.runtime == "pyxis" else ""
    enter = _apptainer(container) if container and container.runtime == "apptainer" else ""
    return f"""# ---- the run; sbatch --chdir puts its jobs into its own folder, on storage that all nodes share
if [ ! -f bundle/{STEPS} ]; then
  echo "trainwright: $(hostname) does not see the run's folder; is its storage mounted there?" >&2
  exit 1
fi
export TRAINWRIGHT_RUN_DIR=$PWD
stage={stage}
pyxis=({pyxis}) enter=({enter})
. bundle/{STEPS}"""


def _step(step: Step) -> str:
    """One step. Its arguments are quoted once more: they are expanded on the node, not in this script."""
    arguments = f" {quote(' '.join(step.arguments))}" if step.arguments else ""
    if step.required:
        return f"run_step {step.name}{arguments}"
    return f'(optional=1; run_step {step.name}{arguments}) || echo "{step.name} failed; the run did not"'


def _epilogue(stage: str) -> list[str]:
    return ['event finished \'"phase":"SUCCEEDED"\''] if stage == "finish" else []


def _apptainer(container: Container) -> str:
    binds = [f"--bind {mount}" for mount in container.mounts]
    return " ".join(["apptainer exec", *(["--nv"] if container.nvidia else []), *binds, quote(container.image)])


def _pyxis(container: Container) -> str:
    # without --container-env a variable of the image would win over the job's
    variables = f" --container-env={','.join(container.variables)}" if container.variables else ""
    return f"--container-image={quote(container.image)} --container-mounts={','.join(container.mounts)}{variables}"
