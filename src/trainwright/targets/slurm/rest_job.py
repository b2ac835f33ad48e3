"""From the ``#SBATCH`` lines of a script to the fields of slurmrestd's job, in its old and its new dialect.

Pure. The old dialect (API 0.0.36 to 0.0.38) takes sbatch's values nearly as they are; the new one (0.0.39 and later)
has lists, flags and numbers as objects. Both were tried on real ones: 22.05 (0.0.38) and 24.11 (0.0.42).
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainwright.errors import InputError, Problem

Fields = dict[str, Any]
_LINE = re.compile(r"#SBATCH\s+(.*)")


def is_new(api: int) -> bool:
    """True for the dialect that begins with 0.0.39."""
    return api >= 39


def directives_of(script: str) -> dict[str, str]:
    """Long options of the script's ``#SBATCH`` lines and their values, unquoted; a bare option has none."""
    found: dict[str, str] = {}
    for line in script.splitlines():
        if line.strip() and not line.startswith("#"):
            break  # sbatch reads no further than the first command
        match = _LINE.match(line)
        for word in shlex.split(match[1], comments=True) if match else []:
            name, _, value = word.removeprefix("--").partition("=")
            found[name] = value
    return found


def fields_of(
    script: str, added: Mapping[str, str | None], environment: Mapping[str, str], name: str, *, new: bool
) -> Fields:
    """The job. ``added`` are options that win over the script's. InputError names what slurmrestd cannot be told."""
    options = {**directives_of(script), **{k: v for k, v in added.items() if v is not None}}
    table = _NEW if new else _OLD
    problems: list[Problem] = []
    job: Fields = {}
    for option, value in options.items():
        if option in _LEFT_OUT:
            continue
        try:
            for field, content in table[option](value).items():
                job[field] = [*job[field], *content] if field == "flags" and field in job else content
        except KeyError:
            instead = "leave it out, or submit by sbatch: slurm.login names a login node"
            problems.append(Problem(name, field=f"--{option}", what="cannot be told to slurmrestd", instead=instead))
        except ValueError:
            problems.append(Problem(name, field=f"--{option}", what=f"is {value!r}, which it cannot be told"))
    if problems:
        raise InputError(problems)
    nodes, each = job.get("nodes", "1"), job.get("tasks_per_node", 1)
    job["tasks"] = int(str(nodes).split("-")[0]) * int(each)  # sbatch counts them itself
    pairs = {key: value for key, value in environment.items() if "\0" not in key + value}
    job["environment"] = [f"{key}={value}" for key, value in pairs.items()] if new else pairs
    return job


def minutes(text: str) -> int:
    """``90``, ``1:30:00``, ``2-12`` in minutes, seconds rounded up. ValueError for anything else."""
    days, dash, clock = text.rpartition("-")
    fields = [int(part) for part in clock.split(":")]
    if len(fields) > 3 or any(part < 0 for part in fields):
        raise ValueError(text)
    if dash:
        hours, left, seconds = (*fields, 0, 0)[:3]
        total = (int(days) * 24 + hours) * 60 + left
    elif len(fields) == 3:
        total, seconds = fields[0] * 60 + fields[1], fields[2]
    else:
        total, seconds = fields[0], fields[1] if len(fields) == 2 else 0
    return total + (1 if seconds else 0)


def megabytes(text: str) -> int:
    """``0``, ``500``, ``16G`` in MiB. ValueError for anything else."""
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", text, re.I)
    if found is None:
        raise ValueError(text)
    scale = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}[found[2].upper()]
    return max(int(found[1]) and 1, int(int(found[1]) * scale))


def _signal(text: str) -> tuple[bool, str, int]:
    """``B:USR1@120`` → to the batch script alone, USR1, 120 seconds ahead."""
    found = re.fullmatch(r"([BR]:)?(?:SIG)?(\w+)(?:@(\d+))?", text)
    if found is None:
        raise ValueError(text)
    return found[1] == "B:", found[2], int(found[3] or 60)


def _old_signal(text: str) -> Fields:
    # "B:" and names are refused; the steps hear the signal themselves then, which is enough: they save and leave
    _, name, seconds = _signal(text)
    number = int(name) if name.isdigit() else int(signal.Signals[f"SIG{name}"])
    return {"signal": f"{number}@{seconds}"}


def _new_signal(text: str) -> Fields:
    batch, name, seconds = _signal(text)
    flags = {"kill_warning_flags": ["BATCH_JOB"]} if batch else {}
    return {"kill_warning_signal": name, "kill_warning_delay": _object(seconds), **flags}


def _object(number: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": number}


def _text(field: str) -> Callable[[str], Fields]:
    return lambda value: {field: value}


def _whole(field: str) -> Callable[[str], Fields]:
    return lambda value: {field: int(value)}


def _true(field: str) -> Callable[[str], Fields]:
    return lambda value: {field: True}


def _per_node(gres: Iterable[str]) -> Fields:
    return {"tres_per_node": ",".join(f"gres/{one}" for one in gres)}


def _exclusive_old(value: str) -> Fields:
    return {"exclusive": value or "exclusive"}


def _exclusive_new(value: str) -> Fields:
    return {"shared": [value or "none"]}


#: Nothing to tell: there is no login shell whose limits a job could inherit.
_LEFT_OUT = frozenset({"propagate"})
_BOTH: dict[str, Callable[[str], Fields]] = {
    "job-name": _text("name"),
    "chdir": _text("current_working_directory"),
    "partition": _text("partition"),
    "account": _text("account"),
    "qos": _text("qos"),
    "constraint": _text("constraints"),
    "reservation": _text("reservation"),
    "dependency": _text("dependency"),
    "comment": _text("comment"),
    "licenses": _text("licenses"),
    "mail-user": _text("mail_user"),
    "wckey": _text("wckey"),
    "output": _text("standard_output"),
    "error": _text("standard_error"),
    "nice": _whole("nice"),
    "ntasks-per-node": _whole("tasks_per_node"),
    "cpus-per-task": _whole("cpus_per_task"),
    "requeue": _true("requeue"),
    "no-requeue": lambda value: {"requeue": False},
    "hold": _true("hold"),
}
_OLD: dict[str, Callable[[str], Fields]] = {
    **_BOTH,
    "exclude": _text("exclude_nodes"),
    "nodelist": _text("nodelist"),
    "nodes": _whole("nodes"),
    "wait-all-nodes": _whole("wait_all_nodes"),
    "open-mode": _text("open_mode"),
    "kill-on-invalid-dep": lambda value: {"kill_on_invalid_dependency": value == "yes"},
    "gpus-per-node": _text("gpus_per_node"),
    "gres": _text("gres"),
    "exclusive": _exclusive_old,
    "mem": lambda value: {"memory_per_node": megabytes(value)},
    "mem-per-cpu": lambda value: {"memory_per_cpu": megabytes(value)},
    "time": lambda value: {"time_limit": minutes(value)},
    "mail-type": _text("mail_type"),
    "signal": _old_signal,
}
_NEW: dict[str, Callable[[str], Fields]] = {
    **_BOTH,
    "exclude": lambda value: {"excluded_nodes": value.split(",")},
    "nodelist": lambda value: {"required_nodes": value.split(",")},
    "nodes": _text("nodes"),
    "wait-all-nodes": lambda value: {"wait_all_nodes": value == "1"},
    "open-mode": lambda value: {"open_mode": [value.upper()]},
    "kill-on-invalid-dep": lambda value: {"flags": ["KILL_INVALID_DEPENDENCY"]} if value == "yes" else {},
    "gpus-per-node": lambda value: _per_node([f"gpu:{value}"]),
    "gres": lambda value: _per_node(value.split(",")),
    "exclusive": _exclusive_new,
    "mem": lambda value: {"memory_per_node": _object(megabytes(value))},
    "mem-per-cpu": lambda value: {"memory_per_cpu": _object(megabytes(value))},
    "time": lambda value: {"time_limit": _object(minutes(value))},
    "mail-type": lambda value: {"mail_type": value.split(",")},
    "signal": _new_signal,
}
