"""Expand the words of a shell script: variables, quotes, arithmetic and command substitutions, as far as it is known.

Takes nodes of the shell grammar and the variables in effect; gives Words. What only a run can tell, and what would
grow beyond every sensible size, becomes a placeholder. Which statements run, and in which order, is for ``walk``.
"""

from __future__ import annotations

import ast
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from trainwright.linter.shell.words import Command, Reference, Variable, Word
from trainwright.linter.text import PLACEHOLDER, Span, Text

MAX_DEPTH = 60
MAX_WORDS = 4_000
MAX_CHARACTERS = 65_536
"""A script that doubles a string in a loop must not fill the memory of the linter."""


@dataclass
class Script:
    """What a script does. ``commands`` in order of execution (substitutions included, marked in their context),
    ``files`` that here-documents write, ``variables`` at the end, ``traps`` as (signal names, command)."""

    text: Text
    commands: list[Command] = field(default_factory=list)
    files: dict[str, Text] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Span] = field(default_factory=dict)
    comments: list[Span] = field(default_factory=list)
    has_error: bool = False


class Expansion(ABC):
    """The variables in effect at one point of a script, and what words become there."""

    def __init__(self, text: Text, variables: dict[str, Variable], shell: str, outer: Mapping[str, Variable] | None):
        self.text = text
        self.shell = shell
        self.variables = variables
        self.outer = outer
        self.script = Script(text)
        self.bodies: dict[str, Any] = {}
        self.calls: list[str] = []
        self.encoded = text.content.encode("utf-8", "replace")
        self.chars: list[int] | None = None
        if not text.content.isascii():
            # Offset of the character that each UTF-8 byte belongs to.
            self.chars = list(accumulate((byte & 0xC0 != 0x80 for byte in self.encoded), initial=-1))[1:]
            self.chars.append(len(text.content))

    @abstractmethod
    def block(self, node: Any, context: frozenset[str], depth: int) -> None:
        """Follow the statements below a node, in order."""

    def at(self, byte: int) -> int:
        """The offset of the character that a byte belongs to."""
        return byte if self.chars is None else self.chars[min(byte, len(self.chars) - 1)]

    def span(self, node: Any) -> Span:
        """Where a node of the grammar is written."""
        return Span(self.text, self.at(node.start_byte), self.at(node.end_byte))

    def raw(self, node: Any) -> str:
        """What is written there."""
        return self.text.content[self.at(node.start_byte) : self.at(node.end_byte)]

    def words(self, node: Any, depth: int) -> list[Word]:
        """A word node as the words it becomes: an array or an unquoted string variable can become several."""
        inner = node
        if (
            node.type == "string"
            and node.named_child_count == 1
            and node.end_byte - node.start_byte == node.named_child(0).end_byte - node.named_child(0).start_byte + 2
        ):
            inner = node.named_child(0)
        if inner.type in ("expansion", "simple_expansion"):
            variable = self.variables.get(self.reference_name(inner)[0])
            raw = self.raw(inner)
            whole = variable is not None and (inner.type == "simple_expansion" or (":" not in raw and "#" not in raw))
            if variable and variable.sure and whole:
                if variable.array and ("[@]" in raw or "[*]" in raw or raw in ("$@", "$*", "${@}", "${*}")):
                    return list(variable.words)[:MAX_WORDS]
                if (
                    inner is node
                    and not variable.array
                    and len(variable.words) == 1
                    and " " in variable.expanded.strip()
                ):
                    return _split(variable.words[0])
        return [self.word(node, depth)]

    def word(self, node: Any, depth: int) -> Word:
        """A node as one word."""
        references: list[Reference] = []
        substitutions: list[Command] = []
        expanded = self.expand(node, references, substitutions, depth)
        return Word(self.span(node), expanded, tuple(references), tuple(substitutions),
                    node.type in ("string", "raw_string", "ansi_c_string"))  # fmt: skip

    def expand(self, node: Any, references: list[Reference], substitutions: list[Command], depth: int) -> str:
        """The value of a node; appends the variables and commands that it depends on."""
        value = self._expand(node, references, substitutions, depth)
        return value if len(value) <= MAX_CHARACTERS else PLACEHOLDER

    def _expand(self, node: Any, references: list[Reference], substitutions: list[Command], depth: int) -> str:
        kind = node.type
        if depth > MAX_DEPTH:
            return PLACEHOLDER
        if kind in ("word", "number", "string_content", "variable_name", "heredoc_content"):
            raw = self.raw(node)
            return re.sub(r"\\(\n|.)", lambda m: "" if m[1] == "\n" else m[1], raw) if "\\" in raw else raw
        if kind == "raw_string":
            return self.raw(node)[1:-1]
        if kind == "ansi_c_string":
            return self.raw(node)[2:-1].replace("\\n", "\n").replace("\\t", "\t")
        if kind == "string":
            parts, at = [], node.start_byte + 1
            for child in node.children:
                if child.type == '"':
                    continue
                # The grammar leaves blanks between parts outside every node.
                parts.append(self.text.content[self.at(at) : self.at(child.start_byte)])
                parts.append(self.expand(child, references, substitutions, depth + 1))
                at = child.end_byte
            parts.append(self.text.content[self.at(at) : max(self.at(at), self.at(node.end_byte) - 1)])
            return "".join(parts)
        if kind == "concatenation":
            return "".join(self.expand(child, references, substitutions, depth + 1) for child in node.children)
        if kind in ("simple_expansion", "expansion"):
            return self.expansion(node, references)
        if kind == "arithmetic_expansion":
            return self.arithmetic(node, references)
        if kind in ("command_substitution", "process_substitution"):
            return self.substitution(node, references, substitutions, depth)
        return self.raw(node) if not node.child_count else PLACEHOLDER

    def reference_name(self, node: Any) -> tuple[str, bool]:
        """The variable an expansion uses, and whether it is used as it is."""
        raw = self.raw(node)
        match = re.match(r"\$\{?([A-Za-z_]\w*|\d+|[@*#?$!-])(.*)", raw, re.DOTALL)
        if not match:
            match = re.match(r"\$\{[#!]([A-Za-z_]\w*)(.*)", raw, re.DOTALL)
            return (match[1], False) if match else ("", False)
        return match[1], match[2] in ("", "}", "[@]}", "[*]}")

    def expansion(self, node: Any, references: list[Reference]) -> str:
        """``$NAME``, ``${NAME}`` and ``${NAME:-default}``."""
        name, whole = self.reference_name(node)
        span = self.span(node)
        early = span.start in self.text.early
        scope = (self.outer or {}) if early else self.variables
        variable = scope.get(name)
        default = re.match(r"\$\{\w+:?[-=]([^{}]*)\}$", self.raw(node))
        shell = "batch" if early and self.shell == "task" else self.shell
        references.append(Reference(name, span, shell, variable, default[1] if default else None))
        if variable is None or not (whole or default):
            return PLACEHOLDER
        if variable.array and "[@]" not in self.raw(node):
            return variable.words[0].expanded if variable.words else PLACEHOLDER
        return variable.expanded

    def arithmetic(self, node: Any, references: list[Reference]) -> str:
        """``$(( … ))`` over integers."""
        body = self.raw(node)[3:-2]
        unknown = False
        early = self.span(node).start in self.text.early
        scope = (self.outer or {}) if early else self.variables
        shell = "batch" if early and self.shell == "task" else self.shell

        def value(match: re.Match[str]) -> str:
            nonlocal unknown
            variable = scope.get(match[1])
            references.append(Reference(match[1], self.span(node), shell, variable))
            text = variable.expanded if variable else ""
            if not re.fullmatch(r"\d{1,12}", text):
                unknown = True
                return "0"
            return text

        expression = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", value, body)
        if unknown:
            return PLACEHOLDER
        result = _calculate(expression)
        return PLACEHOLDER if result is None else str(result)

    def substitution(self, node: Any, references: list[Reference], substitutions: list[Command], depth: int) -> str:
        """``$( … )``: the commands are followed; their output is known only of ``echo``."""
        raw = self.raw(node)
        name = re.fullmatch(r"\$\(([A-Za-z_]\w*)\)", raw)
        if name and name[1] in self.variables and self.shell == "pod":
            # Kubernetes replaces $(NAME) of a declared variable before any shell sees it.
            variable = self.variables[name[1]]
            references.append(Reference(name[1], self.span(node), "kubernetes", variable))
            return variable.expanded
        before = len(self.script.commands)
        saved, shell = self.variables, self.shell
        if self.span(node).start in self.text.early:
            # Inside double quotes the outer shell has run it before this one starts.
            self.variables, self.shell = dict(self.outer or {}), "batch" if shell == "task" else shell
        self.block(node, frozenset({"substitution"}), depth + 1)
        self.variables, self.shell = saved, shell
        substitutions.extend(self.script.commands[before:])
        new = self.script.commands[before:]
        if len(new) == 1 and new[0].name == "echo" and all(w.known is not None for w in new[0].arguments):
            return " ".join(word.expanded for word in new[0].arguments)
        return PLACEHOLDER


def _split(word: Word) -> list[Word]:
    """A variable's string as the words it becomes when it is used without quotes, each with its own place."""
    written = word.written
    quoted = len(written) >= 2 and written[0] == written[-1] and written[0] in "'\""
    words: list[Word] = []
    at = 1 if quoted else 0
    if "$" in written or PLACEHOLDER in word.expanded:
        return [replace(word, expanded=part, quoted=False) for part in word.expanded.split() if part != "\\"]
    for part in word.expanded.split():
        if part == "\\":
            continue
        found = written.find(part, at)
        span = word.span if found == -1 else word.span.part(found, found + len(part))
        at = at if found == -1 else found + len(part)
        words.append(Word(span, part))
    return words


_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.floordiv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def _calculate(expression: str) -> int | None:
    """An integer expression of + - * / % and parentheses, or None."""
    if len(expression) > 200 or not re.fullmatch(r"[\d\s+\-*/%()]+", expression) or "**" in expression:
        return None

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        raise ValueError(expression)

    try:
        return value(ast.parse(expression.strip(), mode="eval").body)
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        return None
