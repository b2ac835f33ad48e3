"""Read YAML (and JSON) into Nodes, with the place of every key and value, in bounded time and memory.

Takes a Text, gives one Node per document and the problems of the file itself. Built on libyaml's event stream rather
than on a constructor: aliases stay references (a "billion laughs" file is small), and depth and size are limits here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field

import yaml
from yaml.resolver import Resolver

from trainwright.linter.detect import TEMPLATE_SUFFIXES
from trainwright.linter.node import Node, Scalar, Type, filled_later
from trainwright.linter.readers.templates import blank_templates, has_templates
from trainwright.linter.text import Span, Text

MAX_DEPTH = 100
MAX_NODES = 400_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_IMPLICIT = Resolver.yaml_implicit_resolvers
_TYPES: dict[str, Type] = {
    "tag:yaml.org,2002:int": "int",
    "tag:yaml.org,2002:float": "float",
    "tag:yaml.org,2002:bool": "bool",
    "tag:yaml.org,2002:null": "null",
}
_TRUE = {"yes", "true", "on"}


@dataclass(frozen=True)
class ReadProblem:
    """Why a file, or a part of it, could not be read. ``code`` is one of syntax, depth, size, template."""

    code: str
    span: Span
    what: str


@dataclass
class YamlFile:
    """The documents of one text; ``problems`` is empty when all of it was read."""

    text: Text
    documents: list[Node] = field(default_factory=list)
    problems: list[ReadProblem] = field(default_factory=list)
    templated: bool = False


def read_yaml(text: Text, *, json: bool = False) -> YamlFile:
    """All documents of a YAML text. Never raises: what cannot be read is a problem, what was read before it stays."""
    result = YamlFile(text)
    lines: list[int] = []
    if not json and has_templates(text.content):
        blanked, lines = blank_templates(text.content)
        text.shown, text.content = text.content, blanked
        result.templated = True
    builder = _Builder(text, lines, json=json)
    try:
        for event in yaml.parse(text.content, Loader=_LOADER):
            problem = builder.feed(event)
            if problem:
                result.problems.append(problem)
                break
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        index = min(getattr(mark, "index", 0) or 0, len(text.content))
        what = " ".join(part for part in (error.context, error.problem) if part)
        code = "template" if result.templated or _is_template_there(text, index) else "syntax"
        result.problems.append(ReadProblem(code, _line_span(text, index), what))
    except (yaml.YAMLError, ValueError, RecursionError, UnicodeError) as error:
        result.problems.append(ReadProblem("syntax", _line_span(text, 0), str(error).splitlines()[0]))
    result.documents = [node for node in builder.documents if node.type != "null"]
    return result


_UNFILLED = re.compile(r"%[sdv]\b|%[A-Z_]{2,}%|@[A-Z_]{2,}@|\$\{|\$\(|\$[A-Z_]{2,}")


def _is_template_there(text: Text, index: int) -> bool:
    """Whether something else fills the file in where it does not parse: printf, sed, envsubst or Terraform."""
    if text.path.endswith(TEMPLATE_SUFFIXES):
        return True
    start = index
    for _ in range(3):
        start = text.content.rfind("\n", 0, max(0, start))
    end = text.content.find("\n", index)
    return _UNFILLED.search(text.content[max(0, start) : len(text.content) if end == -1 else end]) is not None


def _line_span(text: Text, index: int) -> Span:
    """The rest of the line at an offset: what a caret can show."""
    end = text.content.find("\n", index)
    return Span(text, index, len(text.content) if end == -1 else max(end, min(index + 1, len(text.content))))


def _start(event: yaml.Event) -> int:
    return event.start_mark.index if event.start_mark else 0


def _end(event: yaml.Event) -> int:
    return event.end_mark.index if event.end_mark else 0


class _Builder:
    """Turns the event stream into Nodes with an explicit stack."""

    def __init__(self, text: Text, template_lines: list[int], *, json: bool):
        self.text = text
        self.template_lines = template_lines
        self.json = json
        self.documents: list[Node] = []
        self.anchors: dict[str, Node] = {}
        self.stack: list[tuple[Node, Node | None]] = []
        self.count = 0

    def feed(self, event: object) -> ReadProblem | None:
        if isinstance(event, yaml.ScalarEvent):
            return self._attach(self._scalar(event), event.anchor)
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            kind: Type = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
            node = Node(self.text, _start(event), _end(event), kind)
            problem = self._attach(node, event.anchor)
            self.stack.append((node, None))
            if len(self.stack) > MAX_DEPTH:
                return ReadProblem("depth", node.span, f"nesting is deeper than {MAX_DEPTH} levels")
            return problem
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            node, _ = self.stack.pop()
            node.end = _end(event)
            self._close(node)
        elif isinstance(event, yaml.AliasEvent):
            target = self.anchors.get(event.anchor or "")
            if target is None:
                place = Span(self.text, _start(event), _end(event))
                return ReadProblem("syntax", place, f"alias *{event.anchor} has no anchor")
            return self._attach(target, None, alias=True)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.anchors = {}
        return None

    def _attach(self, node: Node, anchor: str | None, *, alias: bool = False) -> ReadProblem | None:
        self.count += 1
        if self.count > MAX_NODES:
            return ReadProblem("size", node.span, f"more than {MAX_NODES} values in one file")
        if anchor:
            self.anchors[anchor] = node
        if not self.stack:
            self.documents.append(node)
            return None
        parent, key = self.stack[-1]
        if parent.type == "sequence":
            parent.add(None, node)
            node.key = node.key or parent.key
        elif key is None:
            self.stack[-1] = (parent, node)
        else:
            self.stack[-1] = (parent, None)
            if not alias:
                node.key = key
            parent.add(key, node)
        return None

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        start, end, value = _start(event), _end(event), event.value
        plain = event.implicit[0] and not event.style
        if filled_later(value):
            # A quoted or block string with a placeholder inside is still text of known shape for the shell reader.
            return Node(self.text, start, end, "unknown", value, plain=plain)
        if not plain or event.tag == "tag:yaml.org,2002:str":
            return Node(self.text, start, end, "str", value)
        kind, scalar = _resolve(value, json=self.json)
        if kind == "null" and start == end and self._template_follows(end):
            kind = "unknown"
        return Node(self.text, start, end, kind, scalar, plain=True)

    def _template_follows(self, offset: int) -> bool:
        """Whether the next line after an empty value is a template's: the value comes from there."""
        line_end = self.text.content.find("\n", offset)
        at = bisect_left(self.template_lines, offset)
        return line_end != -1 and at < len(self.template_lines) and self.template_lines[at] <= line_end + 1

    def _close(self, node: Node) -> None:
        if self.template_lines and node.type in ("mapping", "sequence"):
            at = bisect_left(self.template_lines, node.start)
            line_end = self.text.content.find("\n", node.end)
            limit = node.end if line_end == -1 else line_end
            node.open = at < len(self.template_lines) and self.template_lines[at] <= limit
        if node.type != "mapping":
            return
        seen: dict[str, Node] = {}
        merges: list[Node] = []
        for key, value in node.pairs():
            if key.raw == "<<" and key.plain:
                merges.extend(value.elements() or [value])
            elif key.raw in seen and key.type != "unknown" and not node.open:
                node.duplicates.append(key)
            seen[key.raw] = key
        for merged in merges:
            for key, value in merged.pairs():
                if key.raw not in seen and self.count < MAX_NODES:
                    self.count += 1
                    seen[key.raw] = key
                    node.add(key, value)


def _resolve(value: str, *, json: bool) -> tuple[Type, Scalar]:
    """Type and value of a plain scalar, as YAML 1.1 (kubectl, PyYAML) reads it, or as JSON does."""
    if json:
        return _resolve_json(value)
    for tag, pattern in _IMPLICIT.get(value[:1], ()):
        kind = _TYPES.get(tag)
        if kind and pattern.match(value):
            return _convert(kind, value)
    return "str", value


def _resolve_json(value: str) -> tuple[Type, Scalar]:
    if value in ("true", "false"):
        return "bool", value == "true"
    if value == "null":
        return "null", None
    for kind in ("int", "float"):
        found = _convert("int" if kind == "int" else "float", value)
        if found[0] == kind:
            return found
    return "str", value


def _convert(kind: Type, value: str) -> tuple[Type, Scalar]:
    """The Python value of a resolved scalar; a string when it is beyond Python's limits."""
    try:
        if kind == "null":
            return kind, None
        if kind == "bool":
            return kind, value.lower() in _TRUE
        bare = value.replace("_", "")
        if ":" in bare or len(bare) > 400:
            return "str", value
        if kind == "float":
            return kind, float(bare.replace(".inf", "inf").replace(".nan", "nan").replace(".NaN", "nan"))
        sign, digits = (bare[0], bare[1:]) if bare[:1] in ("+", "-") else ("", bare)
        if digits.startswith("0") and digits.isdigit() and len(digits) > 1:
            return kind, int(sign + digits, 8)
        return kind, int(bare, 0)
    except (ValueError, OverflowError):
        return "str", value
