"""The user's own machine, read from a YAML or JSON file (``--machine FILE``): "bring your own machine".

A file describes a node from nothing, or starts from a known one (``base: dgx-h100``) and changes some values. All
problems are told at once with their lines. It must not know models or layouts.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts import accelerators, instances
from trainwright.facts.accelerators import Accelerator
from trainwright.facts.machines import FABRICS, Machine

if TYPE_CHECKING:
    import yaml

GIGABITS = 1e9 / 8


@dataclass(frozen=True)
class _Field:
    """One legal key: what values are legal, in words and as a test, and how one becomes a field of ``Machine``."""

    name: str
    needed: str
    legal: Callable[[Any], bool]
    convert: Callable[[Any], Any]


#: No figure of a machine file is larger, in any of its units; infinity and NaN are none.
LARGEST = 1e9
#: Accelerators of one node or scale-up domain: far beyond any (an NVL576 joins 576).
MOST = 4096


def _number(low: float, high: float = LARGEST) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _whole(low: int, high: float = LARGEST) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _date(value: Any) -> bool:
    try:
        datetime.date.fromisoformat(str(value))
    except ValueError:
        return False
    return True


def _same(value: Any) -> Any:
    return value


def _scaled(unit: float, kind: type = float) -> Callable[[Any], Any]:
    return lambda value: kind(value * unit)


def _constants(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and _number(0, 1e12)(number) for name, number in value.items()
    )


def _peaks(value: Any) -> bool:
    return _constants(value) and bool(value) and all(number > 0 for number in value.values())


_FIELDS: dict[str, _Field] = {
    "name": _Field("name", "a name", _text, _same),
    "count": _Field("count", f"a whole number of accelerators per node, at most {MOST:,},", _whole(1, MOST), _same),
    "fabric": _Field("fabric", f"one of {', '.join(FABRICS)}", lambda value: value in FABRICS, _same),
    "fabric_gb_s": _Field(
        "fabric_bandwidth", "GB/s one accelerator sends within the node", _number(1e-3), _scaled(1e9)
    ),
    "network_gbps": _Field(
        "network_bandwidth", "Gbit/s out of a node, all interfaces", _number(1e-3), _scaled(GIGABITS)
    ),
    "nics": _Field("nics", "a whole number of RDMA interfaces", _whole(0), _same),
    "nic": _Field("nic", "a word: efa, infiniband, roce, ethernet", _text, _same),
    "gpudirect": _Field("gpudirect", "true or false", lambda value: isinstance(value, bool), _same),
    "network_efficiency": _Field("network_efficiency", "a share between 0.05 and 1", _number(0.05, 1), float),
    "domain": _Field(
        "domain", f"a whole number of accelerators that the fabric joins, at most {MOST:,},", _whole(1, MOST), _same
    ),
    "vcpus": _Field("vcpus", "a whole number", _whole(1), _same),
    "memory_gib": _Field("memory", "GiB of host memory", _number(1), _scaled(2**30, int)),
    "nvme_gb": _Field("nvme", "GB of local storage", _number(0), _scaled(1e9, int)),
    "usd_per_hour": _Field("usd_per_hour", "US dollars per node-hour", _number(0), float),
    "calibration": _Field("calibration", "names and numbers", _constants, dict),
    "source": _Field("source", "a sentence", _text, _same),
    "date": _Field("date", "a date such as 2026-07-20", _date, str),
}
_ACCELERATOR_KEYS = {
    "name": _text,
    "vendor": _text,
    "memory_nominal_gib": _number(0.01),
    "memory_usable_mib": _number(1),
    "memory_gb_s": _number(0.01),
    "tflops": _peaks,
    "link": _text,
    "link_gb_s": _number(0.01),
    "pcie_gb_s": _number(0.01),
    "source": _text,
    "note": _text,
}
_ACCELERATOR_NEEDED = ("memory_nominal_gib", "memory_gb_s", "tflops")


def find(name_or_path: str) -> Machine:
    """The machine a user names: a file if there is one of that name, else a known instance type."""
    path = Path(name_or_path)
    try:
        is_file = path.is_file()
    except OSError as error:  # a name longer than a file's can be
        raise InputError([Problem(name_or_path[:80] + "…", what=f"cannot be read: {error.strerror}")]) from None
    if is_file:
        return read(path)
    if path.suffix in (".yaml", ".yml", ".json"):
        raise InputError([Problem(name_or_path, what="no such file")])
    return instances.get(name_or_path)


def read(path: Path) -> Machine:
    """The machine a file describes; raises ``InputError`` with every problem and its line."""
    values, lines = _load(path)
    return from_values(values, str(path), lines)


def from_values(values: Mapping[str, Any], where: str, lines: Mapping[str, int] | None = None) -> Machine:
    """The machine that plain values describe: the keys of ``_FIELDS``, ``base`` and ``accelerator``.

    ``lines``: key → 1-based line, for messages.
    """
    problems: list[Problem] = []

    def wrong(key: str, what: str, instead: str = "") -> None:
        problems.append(Problem(where, (lines or {}).get(key, 0), field=key, what=what, instead=instead))

    legal = {*_FIELDS, "base", "accelerator"}
    for key in values:
        if key not in legal:
            wrong(str(key), "is not a known key", did_you_mean(str(key), sorted(legal)))
    base = _base(values, wrong)
    chip = _accelerator(values["accelerator"], wrong) if "accelerator" in values else None
    changes: dict[str, Any] = {}
    for key, known in _FIELDS.items():
        if values.get(key) is None:
            continue
        if known.legal(values[key]):
            changes[known.name] = known.convert(values[key])
        else:
            wrong(key, f"is {values[key]!r}", f"{known.needed} is needed")
    if "network_efficiency" in changes:
        # What the planner reads it as; a calibration of the user's own says more.
        reached = {"network.inter_efficiency": changes["network_efficiency"]}
        changes["calibration"] = {**reached, **changes.get("calibration", {})}
    if "base" not in values:
        needed = ["accelerator", "count", "network_gbps"]
        needed += ["fabric"] if changes.get("count", 1) > 1 else []
        for key in needed:
            if values.get(key) is None:
                wrong(key, "is missing", f"{'a name or figures' if key == 'accelerator' else _FIELDS[key].needed}")
    if problems:
        raise InputError(problems)
    return _build(base, chip, changes, Path(where).stem)


def _build(base: Machine | None, chip: Accelerator | None, changes: dict[str, Any], name: str) -> Machine:
    if chip is not None:
        changes["accelerator"] = chip
    start: dict[str, Any] = {"fabric": "none", "fabric_bandwidth": None}
    if base is not None:
        # Source and date speak of the base only: what the user changed is the user's own word.
        start = {field.name: getattr(base, field.name) for field in fields(Machine)} | {"source": "", "date": ""}
    values = {**start, "name": name, **changes}
    refitted = any(values[key] != start.get(key) for key in ("fabric", "accelerator"))
    if refitted and "fabric_bandwidth" not in changes:
        values["fabric_bandwidth"] = instances.fabric_bandwidth(values["fabric"], values["accelerator"])
    return Machine(**values)


def _base(values: Mapping[str, Any], wrong: Callable[..., None]) -> Machine | None:
    if "base" not in values:
        return None
    try:
        return instances.get(str(values["base"]))
    except InputError as error:
        wrong("base", error.problems[0].what, error.problems[0].instead)
        return None


def _accelerator(value: Any, wrong: Callable[..., None]) -> Accelerator | None:
    """A known accelerator by name, or one described by the same keys as a row of accelerators.json."""
    if isinstance(value, str):
        try:
            return accelerators.get(value)
        except InputError as error:
            wrong("accelerator", error.problems[0].what, error.problems[0].instead)
            return None
    if not isinstance(value, Mapping):
        wrong("accelerator", f"is {value!r}", "a known name, or its figures")
        return None
    good = True
    for key, item in value.items():
        if key not in _ACCELERATOR_KEYS:
            wrong("accelerator", f"has {key!r}", did_you_mean(str(key), _ACCELERATOR_KEYS))
            good = False
        elif not _ACCELERATOR_KEYS[key](item):
            wrong("accelerator", f"has {key} = {item!r}", "see the rows of accelerators.json for legal values")
            good = False
    missing = [key for key in _ACCELERATOR_NEEDED if key not in value]
    if missing:
        wrong("accelerator", f"lacks {', '.join(missing)}")
    if missing or not good:
        return None
    return replace(accelerators.from_row(str(value.get("name", "own")), value), source=str(value.get("source", "")))


def _load(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Values and the line of each top-level key."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([Problem(str(path), what=f"cannot be read: {error}")]) from None
    values, lines = _parse_json(path, text) if path.suffix == ".json" else _parse_yaml(path, text)
    if not isinstance(values, dict):
        raise InputError([Problem(str(path), what="is not a mapping", instead="name: value lines are needed")])
    return values, lines


def _parse_json(path: Path, text: str) -> tuple[Any, dict[str, int]]:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _once(path, pairs)), {}
    except RecursionError:
        raise InputError([Problem(str(path), what="is nested too deeply for a machine file")]) from None
    except json.JSONDecodeError as error:
        problem = Problem(str(path), error.lineno, error.colno, what=f"is not JSON: {error.msg}")
        raise InputError([problem]) from None
    except ValueError:  # a number of thousands of digits
        raise InputError([Problem(str(path), what="holds a number that is too long to be read")]) from None


def _once(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are each given once: the last would silently win."""
    _refuse_twice(path, [(key, 0) for key, _ in pairs])
    return dict(pairs)


def _refuse_twice(path: Path, keys: Iterable[tuple[Any, int]]) -> None:
    """``keys``: each with its 1-based line."""
    seen: dict[Any, int] = {}
    problems = []
    for key, line in keys:
        if key in seen:
            what = f"is given twice, first in line {seen[key]}" if seen[key] else "is given twice"
            problems.append(Problem(str(path), line, field=str(key), what=what, instead="keep one"))
        seen.setdefault(key, line)
    if problems:
        raise InputError(problems)


def _parse_yaml(path: Path, text: str) -> tuple[Any, dict[str, int]]:
    # Parsing YAML costs tens of milliseconds to import: only who brings a YAML file pays for it.
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if isinstance(node, yaml.MappingNode):
            scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            _refuse_twice(path, [(key.value, key.start_mark.line + 1) for key in scalars])
        return yaml.safe_load(text), _lines(node)
    except RecursionError:
        raise InputError([Problem(str(path), what="is nested too deeply for a machine file")]) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        what = f"is not YAML: {getattr(error, 'problem', None) or error}"
        raise InputError([Problem(str(path), line, column, what=what)]) from None
    except ValueError as error:  # what looks like a date or a number and is none
        raise InputError([Problem(str(path), what=f"holds a value that cannot be read: {error}")]) from None


def _lines(node: yaml.Node | None) -> dict[str, int]:
    pairs = getattr(node, "value", None)
    if not isinstance(pairs, list):
        return {}
    return {pair[0].value: pair[0].start_mark.line + 1 for pair in pairs if isinstance(pair, tuple)}
