"""YAML to plain values, with the position of every key and value.

Reads one document with PyYAML's C parser. Scalars follow the YAML 1.2 core schema, so that ``on``, ``no`` and
``12:30`` stay text and ``1e9`` is a number; what YAML 1.1 and 1.2 read differently (``010``) is refused.
Knows nothing of what the values mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from trainwright.errors import InputError, Problem

Path = tuple[str | int, ...]
Position = tuple[int, int]

MAX_BYTES = 4 * 2**20  # a spec is a page or two; more is a mistake or an attack
_MAX_DEPTH = 64
_MAX_NODES = 200_000


@dataclass
class Document:
    """Plain values and where each stands: ``keys`` and ``values`` map a path to 1-based (line, column)."""

    path: str
    value: Any
    keys: dict[Path, Position] = field(default_factory=dict)
    values: dict[Path, Position] = field(default_factory=dict)

    def position(self, path: Path, of_key: bool = False) -> Position:
        """Position of a path, or of its nearest ancestor that was written down; (0, 0) if there is none."""
        tables = (self.keys, self.values) if of_key else (self.values, self.keys)
        for length in range(len(path), 0, -1):
            for table in tables:
                if path[:length] in table:
                    return table[path[:length]]
        return self.values.get((), (0, 0))


class CoreLoader(yaml.CSafeLoader):
    """PyYAML's C loader with the implicit types of the YAML 1.2 core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


_FLOAT = re.compile(r"[-+]?(?:\.\d+|\d[\d_]*(?:\.\d*)?)(?:[eE][-+]?\d+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$")
for _tag, _pattern, _first in (
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    ("int", re.compile(r"[-+]?\d[\d_]*$|0o[0-7]+$|0x[0-9a-fA-F]+$"), "-+0123456789"),
    ("float", _FLOAT, "-+0123456789."),
    ("null", re.compile(r"(?:~|null|Null|NULL|)$"), "~nN\0"),
    ("merge", re.compile(r"<<$"), "<"),
):
    CoreLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", _pattern, list(_first) + ([""] if _tag == "null" else [])
    )


class _Builder:
    """Turns composed nodes into plain values and collects every problem on the way."""

    def __init__(self, path: str):
        self.document = Document(path, None)
        self.problems: list[Problem] = []
        self._open: set[int] = set()
        self._nodes = 0

    def problem(self, node: yaml.Node, where: Path, what: str, instead: str) -> None:
        line, column = _start(node)
        self.problems.append(Problem(self.document.path, line, column, dotted(where), what, instead))

    def build(self, node: yaml.Node, where: Path) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES or len(where) > _MAX_DEPTH:
            raise _TooMuch
        self.document.values[where] = _start(node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, where)
        if id(node) in self._open:
            self.problem(node, where, "contains itself through an alias", "write the value out")
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(child, (*where, index)) for index, child in enumerate(node.value)]
            return self._mapping(node, where)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.Node, where: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.problem(key, where, "has a key that is not plain text", "use a word as the key")
                continue
            if key.tag == "tag:yaml.org,2002:merge":
                self.problem(key, where, "uses a YAML merge key (<<)", "write the fields out, or use --set")
                continue
            name = str(key.value)
            path = (*where, name)
            if name in result:
                line, _ = self.document.keys[path]
                self.problem(key, path, f"is given twice, first on line {line}", "keep one of the two")
                continue
            self.document.keys[path] = _start(key)
            result[name] = self.build(value, path)
        return result

    def _scalar(self, node: yaml.ScalarNode, where: Path) -> Any:
        text = str(node.value)
        kind = node.tag.rpartition(":")[2]
        if kind == "str" and node.tag.startswith("tag:yaml.org"):
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind == "int":
            if re.fullmatch(r"[-+]?0\d+", text):
                plain = text.lstrip("+-0") or "0"
                self.problem(
                    node, where, f"{text} is octal in YAML 1.1 and decimal in YAML 1.2", f"write {plain}, or quote it"
                )
                return 0
            return int(text.replace("_", ""), 0) if text[:2] in ("0o", "0x") else int(text.replace("_", ""))
        if kind == "float":
            return float(re.sub(r"\.(?=inf|nan)", "", text.lower().replace("_", "")))
        self.problem(
            node, where, f"has the YAML tag {node.tag}", "write plain text, numbers, lists and mappings only"
        )
        return None


class _TooMuch(Exception):
    pass


def read_text(text: str, path: str) -> Document:
    """Parse one YAML document. Everything wrong with it is raised together as an InputError."""
    if len(text) > MAX_BYTES:
        raise InputError(
            [Problem(path, what=f"has {len(text):,} characters", instead="this file should be a page or two")]
        )
    try:
        if _depth(text) > _MAX_DEPTH:
            raise InputError([Problem(path, what=f"is nested more than {_MAX_DEPTH} levels deep")])
        nodes = list(yaml.compose_all(text, Loader=CoreLoader))
    except yaml.MarkedYAMLError as error:
        raise InputError([_syntax_problem(error, text, path)]) from error
    except (yaml.YAMLError, ValueError) as error:
        what = f"is not YAML: {str(error).splitlines()[0]}"
        raise InputError([Problem(path, what=what, instead="write plain text in UTF-8")]) from error
    if not nodes or nodes[0] is None:
        raise InputError([Problem(path, what="is empty", instead="`trainwright init` writes a commented one")])
    if len(nodes) > 1:
        line, column = _start(nodes[1])
        problem = Problem(path, line, column, "", "a second document starts here", "keep one document in a file")
        raise InputError([problem])
    builder = _Builder(path)
    try:
        builder.document.value = builder.build(nodes[0], ())
    except _TooMuch:
        raise InputError([Problem(path, what="is nested too deeply or repeats too much through aliases")]) from None
    if builder.problems:
        raise InputError(builder.problems)
    return builder.document


def parse_scalar(text: str) -> Any:
    """Read the right-hand side of ``--set`` by the same rules: a scalar, or a flow list or mapping."""
    if text == "":
        return ""
    return read_text(text, "--set").value


def dotted(path: Path) -> str:
    """``("data", "sources", 0, "path")`` as ``data.sources.0.path``."""
    return ".".join(map(str, path))


def _depth(text: str) -> int:
    """Deepest nesting, found without recursion: composing a hostile depth would overflow the C stack."""
    depth = deepest = 0
    for event in yaml.parse(text, Loader=CoreLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            deepest = max(deepest, depth)
            if deepest > _MAX_DEPTH:
                break
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return deepest


def _start(node: yaml.Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, path: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    lines = text.splitlines()
    shown = lines[line - 1] if 0 < line <= len(lines) else ""
    instead = (
        "indent with spaces, not tabs"
        if "\t" in shown
        else "check indentation, quotes and colons on this line and the one before"
    )
    return Problem(path, line, column, "", f"is not YAML: {error.problem or error.context}", instead)
