"""The native file of the local target, ``local.yaml``: which commands run one after the other, and how they end."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.runs.folder import RUN_DIR_VARIABLE
from trainwright.spec.model import RunSpec
from trainwright.spec.write import to_yaml

NAME = "local.yaml"
_PYTHON = "python"
_RUN_DIR = f"${RUN_DIR_VARIABLE}"


@dataclass(frozen=True)
class Stage:
    """One command. A stage that is not ``required`` may fail without failing the run."""

    name: str
    command: tuple[str, ...]
    required: bool = True

    def argv(self, run_dir: Path) -> list[str]:
        """The command as it is started: this interpreter and the run's folder in place of their names."""
        first, *rest = self.command
        interpreter = [sys.executable] if first == _PYTHON else [first]
        return interpreter + [str(run_dir) if word == _RUN_DIR else word for word in rest]


def _verb(name: str, required: bool = True) -> Stage:
    # -P: a file such as random.py in the folder where a run was started must not stand in for a library
    return Stage(name, (_PYTHON, "-P", "-m", "trainwright", name, _RUN_DIR), required)


PREPARE, TRAIN, FINISH, REPORT = _verb("prepare"), _verb("train"), _verb("finish"), _verb("report", required=False)


def stages_of(spec: RunSpec) -> tuple[Stage, ...]:
    """The built-in trainer has four stages; an own script only trains and reports."""
    return (TRAIN, REPORT) if spec.train else (PREPARE, TRAIN, FINISH, REPORT)


@dataclass(frozen=True)
class Settings:
    """Content of ``local.yaml``. Seconds are real time."""

    stages: tuple[Stage, ...]
    grace_seconds: float = 120.0
    restart_delay_seconds: float = 1.0

    def patched(self, overrides: Mapping[str, Any]) -> Settings:
        """With ``target.overrides`` applied. An unknown name or a value that is no time is an InputError."""
        legal = ("grace_seconds", "restart_delay_seconds")
        problems = []
        for name, value in overrides.items():
            field = f"target.overrides.{name}"
            if name not in legal:
                problems.append(Problem("", field=field, what="unknown field", instead=did_you_mean(name, legal)))
            elif not _is_seconds(value):
                problems.append(Problem("", field=field, what=f"is {value!r}", instead="write a number of seconds"))
        if problems:
            raise InputError(problems)
        return replace(
            self,
            grace_seconds=float(overrides.get("grace_seconds", self.grace_seconds)),
            restart_delay_seconds=float(overrides.get("restart_delay_seconds", self.restart_delay_seconds)),
        )

    def to_text(self) -> str:
        """The file, with the reason beside each value."""
        stages = [
            {"name": s.name, "command": list(s.command), **({} if s.required else {"required": False})}
            for s in self.stages
        ]
        return (
            "# How this machine runs it: these commands, one after the other, each in its own process group.\n"
            f"# `{_PYTHON}` is the interpreter that submits; {_RUN_DIR} is the folder of the run.\n"
            "version: 1\n"
            f"grace_seconds: {self.grace_seconds:g}  # from SIGTERM to SIGKILL: time to finish a step and save it\n"
            f"restart_delay_seconds: {self.restart_delay_seconds:g}"
            "  # before the first restart; doubles each time, up to a minute\n"
            "# `required: false` may fail without failing the run.\n"
        ) + to_yaml({"stages": stages})

    @classmethod
    def read(cls, path: Path) -> Settings:
        """Read the file back; anything wrong with it is an InputError."""
        try:
            values = yaml.safe_load(path.read_text())
            stages = tuple(
                Stage(str(s["name"]), tuple(map(str, s["command"])), bool(s.get("required", True)))
                for s in values["stages"]
            )
            seconds = values["grace_seconds"], values["restart_delay_seconds"]
        except OSError as error:
            raise InputError([Problem(str(path), what=f"cannot be read: {error.strerror}")]) from error
        except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                [Problem(str(path), what="is no local.yaml", instead="render the bundle again")]
            ) from error
        if not all(s.command for s in stages) or not stages or not all(map(_is_seconds, seconds)):
            raise InputError([Problem(str(path), what="is no local.yaml", instead="render the bundle again")])
        return cls(stages, float(seconds[0]), float(seconds[1]))


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
