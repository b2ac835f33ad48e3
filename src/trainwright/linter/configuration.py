"""Configuration of the linter: ``[lint]`` in trainwright.toml, or ``[tool.trainwright.lint]`` in pyproject.toml.

Takes the paths to lint; finds the nearest such file above them and gives a LintConfig. Every key that is unknown or
of a wrong type is a problem at its line and column. The command line wins over the file.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.linter.path_patterns import matches
from trainwright.linter.rules import RULES
from trainwright.linter.values import version_tuple

KEYS = ("select", "ignore", "exclude", "versions", "per-path-ignores")
_TABLES = {"trainwright.toml": ("lint",), "pyproject.toml": ("tool", "trainwright", "lint")}


@dataclass(frozen=True)
class LintConfig:
    """What a project asks of the linter. ``root`` is the folder of its file; patterns are relative to it."""

    root: Path = Path()
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    per_path: Mapping[str, Sequence[str]] = field(default_factory=dict)
    exclude: Sequence[str] = ()

    def excludes(self, path: str) -> bool:
        """Whether a file or folder that a search comes by is left out."""
        return any(matches(path, pattern, self.root) for pattern in self.exclude)


def find_config(paths: Iterable[str | Path]) -> Path | None:
    """The configuration file nearest above the paths: upwards from the folder they share, to the top of the
    repository. A pyproject.toml without a ``tool.trainwright`` table does not count."""
    absolute = [Path(path).absolute() for path in paths]
    folders = [str(path if path.is_dir() else path.parent) for path in absolute] or [str(Path.cwd())]
    start = Path(os.path.commonpath(folders))
    for folder in (start, *start.parents):
        for name in _TABLES:
            candidate = folder / name
            if candidate.is_file() and (name != "pyproject.toml" or b"tool.trainwright" in _bytes(candidate)):
                return candidate
        if (folder / ".git").exists():
            return None
    return None


def read_config(path: Path) -> LintConfig:
    """The configuration in a file. Raises InputError with every problem in it."""
    try:
        text = path.read_bytes().decode("utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        raise InputError([Problem(str(path), what=f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise InputError([Problem(str(path), what="is not text in UTF-8")]) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        match = re.search(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
        what, line, column = (match[1], int(match[2]), int(match[3])) if match else (str(error), 0, 0)
        raise InputError([Problem(str(path), line, column, what=f"is not TOML: {what}")]) from error
    reader = _Reader(str(path), text)
    config = reader.read(content, _TABLES.get(path.name, ("lint",)), path.parent)
    if reader.problems:
        raise InputError(reader.problems)
    return config


def check_prefixes(prefixes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those that begin no rule's id, each with what would be right."""
    for prefix in prefixes:
        if not prefix or not any(rule_id.startswith(prefix) for rule_id in RULES):
            near = get_close_matches(prefix.upper(), RULES, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else "write a rule's id or its beginning, such as TW205 or TW2"
            yield prefix, hint


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


class _Reader:
    """Checks values one by one and remembers what is wrong with them."""

    def __init__(self, path: str, text: str):
        self.path = path
        self.text = text
        self.problems: list[Problem] = []

    def wrong(self, keys: Sequence[str], what: str, instead: str) -> None:
        self.problems.append(Problem(self.path, *_position(self.text, keys), ".".join(keys), what, instead))

    def read(self, content: dict[str, Any], table: tuple[str, ...], root: Path) -> LintConfig:
        value: Any = content
        for depth, name in enumerate(table):
            if name == "lint":
                for other in (key for key in value if key != "lint"):
                    self.wrong((*table[:depth], other), "unknown table", did_you_mean(other, ["lint"]))
            value = value.get(name, {})
            if not isinstance(value, dict):
                self.wrong(table[: depth + 1], "is not a table", f"write [{'.'.join(table[: depth + 1])}]")
                return LintConfig(root)
        for key in value:
            if key not in KEYS:
                self.wrong((*table, key), "unknown key", did_you_mean(key, KEYS))
        return LintConfig(
            root,
            self.rule_ids(value, (*table, "select")),
            self.rule_ids(value, (*table, "ignore")),
            self.versions(value, (*table, "versions")),
            self.per_path(value, (*table, "per-path-ignores")),
            self.patterns(value, (*table, "exclude")),
        )

    def rule_ids(self, holder: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
        value = holder.get(keys[-1], [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(keys, "is not a list of rule ids", f'write {keys[-1]} = ["TW205", "TW3"]')
            return []
        for prefix, hint in check_prefixes(value):
            self.wrong(keys, f"no rule begins with {prefix!r}", hint)
        return value

    def patterns(self, holder: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
        value = holder.get(keys[-1], [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            self.wrong(keys, "is not a list of patterns", 'write exclude = ["third_party/**", "*.generated.yaml"]')
            return []
        return value

    def versions(self, holder: Mapping[str, Any], keys: Sequence[str]) -> dict[str, str]:
        value = holder.get(keys[-1], {})
        if not isinstance(value, dict):
            self.wrong(keys, "is not a table", 'write versions = { kubernetes = "1.33" }')
            return {}
        for name, version in value.items():
            if not isinstance(version, str) or not version_tuple(version):
                self.wrong((*keys, name), f"{version!r} is no version", 'write it as text, such as "1.33"')
        return {name: version for name, version in value.items() if isinstance(version, str)}

    def per_path(self, holder: Mapping[str, Any], keys: Sequence[str]) -> dict[str, list[str]]:
        value = holder.get(keys[-1], {})
        if not isinstance(value, dict):
            self.wrong(keys, "is not a table", 'write per-path-ignores = { "examples/**" = ["TW205"] }')
            return {}
        return {pattern: self.rule_ids(value, (*keys, pattern)) for pattern in value}


def _position(text: str, keys: Sequence[str]) -> tuple[int, int]:
    """Line and column where a dotted key is written, as a table header, ``key =`` or inside an inline table; (0, 0)
    when it is nowhere found. tomllib gives values without places."""
    inside: list[str] = []
    best = 0, 0, 0
    for number, line in enumerate(text.split("\n"), 1):
        header = re.match(r"\s*\[\[?([^\]]+)\]", line)
        if header:
            inside = [part.strip().strip("\"'") for part in re.findall(r'"[^"]*"|\'[^\']*\'|[^.]+', header[1])]
            if inside == list(keys):
                return number, header.start(1) + 1
            continue
        rest = list(keys[len(inside) :]) if inside == list(keys[: len(inside)]) else []
        for length in range(len(rest), 0, -1):
            # the longest beginning of the key on this line: `versions = { kubernetes = 1 }` holds both parts
            pattern = r"[\s.={,]+".join(rf"[\"']?{re.escape(part)}[\"']?" for part in rest[:length])
            match = re.match(rf"\s*({pattern})\s*[.=]", line) or (
                re.match(rf"\s*{re.escape(rest[0])}\s*=.*?[{{,]\s*([\"']?{re.escape(rest[-1])}[\"']?)\s*=", line)
                if length == len(rest) > 1
                else None
            )
            if match and length > best[0]:
                best = length, number, match.start(1) + 1
                break
    return best[1], best[2]
