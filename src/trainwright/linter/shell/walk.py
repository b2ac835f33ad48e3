"""Follow a shell script from top to bottom: which commands it starts, with which words, variables and input.

Takes a Text and the variables that come from outside; gives a Script. It follows assignments, exports, arrays,
functions, branches, loops, here-documents and simple arithmetic. What only a run can tell becomes a placeholder.
Must not know schedulers or training.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from typing import Any

from trainwright.linter.shell.words import Command, Reference, Variable, Word
from trainwright.linter.text import PLACEHOLDER, Span, Text

MAX_COMMANDS = 4_000
MAX_DEPTH = 60
_SPECIAL = set("@*#?$!-")


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


@cache
def _parser() -> Any:
    # The grammar is a native library without complete types; everything behind this line is a tree of nodes.
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def walk_script(text: Text, variables: Mapping[str, Variable] | None = None, shell: str = "batch",
                outer: Mapping[str, Variable] | None = None) -> Script:  # fmt: skip
    """Follow ``text``. ``variables`` exist from the start; ``outer`` are those of the shell that already expanded the
    ``$`` at ``text.early``."""
    walker = _Walker(text, dict(variables or {}), shell, outer)
    walker.block(_parser().parse(walker.encoded).root_node, frozenset(), 0)
    walker.script.variables = walker.variables
    return walker.script


class _Walker:
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

    # -- places
    # --------------------------------------------------------------------------------------------------------

    def at(self, byte: int) -> int:
        return byte if self.chars is None else self.chars[min(byte, len(self.chars) - 1)]

    def span(self, node: Any) -> Span:
        return Span(self.text, self.at(node.start_byte), self.at(node.end_byte))

    def raw(self, node: Any) -> str:
        return self.text.content[self.at(node.start_byte) : self.at(node.end_byte)]

    # -- statements
    # ----------------------------------------------------------------------------------------------------

    def block(self, node: Any, context: frozenset[str], depth: int) -> None:
        """Follow the statements below a node, in order."""
        if depth > MAX_DEPTH:
            return
        children = node.children
        for number, child in enumerate(children):
            follows = children[number + 1].type if number + 1 < len(children) else ""
            self.statement(child, context | {"background"} if follows == "&" else context, depth + 1)

    def statement(self, node: Any, context: frozenset[str], depth: int) -> None:
        if depth > MAX_DEPTH or len(self.script.commands) > MAX_COMMANDS:
            return
        kind = node.type
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, node, context, depth)
        elif kind == "comment":
            self.script.comments.append(self.span(node))
        elif kind == "ERROR":
            self.script.has_error = True
            self.block(node, context, depth)
        elif node.child_count and kind not in ("heredoc_redirect", "file_redirect", "test_command"):
            self.block(node, context, depth)

    def command(self, node: Any, context: frozenset[str], depth: int) -> Command | None:
        words: list[Word] = []
        prefix: dict[str, Variable] = {}
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                variable = self.assignment(child, exported=True, depth=depth)
                if variable:
                    prefix[variable.name] = variable
            elif kind == "command_name":
                words.extend(self.words(child.children[0] if child.children else child, depth))
            elif kind in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                continue
            elif kind not in ("comment",):
                words.extend(self.words(child, depth))
        command = Command(
            tuple(words), self.span(node), {**self.variables, **prefix} if prefix else self.variables,
            context, self.shell, prefix,
        )  # fmt: skip
        if not words:
            self.set(prefix)
            return None
        name = command.name
        if name in self.bodies and name not in self.calls and len(self.calls) < 8:
            self.call(name, command, context, depth)
            return None
        if name in ("read", "mapfile", "readarray"):
            self.set(
                {
                    w.expanded: Variable(w.expanded, sure=False, place=w.span)
                    for w in words[1:]
                    if w.expanded.isidentifier()
                }
            )
        self.script.commands.append(command)
        return command

    def call(self, name: str, command: Command, context: frozenset[str], depth: int) -> None:
        """Follow a function's body with its arguments."""
        saved = {key: self.variables.get(key) for key in (*map(str, range(10)), "@", "*")}
        arguments = {
            str(n + 1): Variable(str(n + 1), (w,), origin="argument") for n, w in enumerate(command.arguments[:9])
        }
        every = Variable("@", command.arguments, origin="argument", array=True)
        self.set({**arguments, **command.assigned, "@": every, "*": every})
        self.calls.append(name)
        self.block(self.bodies[name], context | {"function"}, depth)
        self.calls.pop()
        self.variables = {**self.variables}
        for key, value in saved.items():
            if value is None:
                self.variables.pop(key, None)
            else:
                self.variables[key] = value

    def set(self, changed: Mapping[str, Variable]) -> None:
        if changed:
            self.variables = {**self.variables, **changed}

    def assignment(self, node: Any, *, exported: bool, depth: int) -> Variable | None:
        name_node = node.child_by_field_name("name") or (node.children[0] if node.children else None)
        if name_node is None:
            return None
        name = self.raw(name_node)
        value_node = node.child_by_field_name("value")
        before = self.variables.get(name)
        keep_export = exported or bool(before and before.exported)
        place = self.span(node)
        if name_node.type == "subscript":
            base = self.raw(name_node.children[0])
            return Variable(base, sure=False, array=True, place=place)
        if value_node is None or value_node.start_byte == value_node.end_byte:
            return Variable(name, (), keep_export, text="", place=place)
        append = "+=" in self.text.content[self.at(name_node.end_byte) : self.at(value_node.start_byte)]
        if value_node.type == "array":
            words = tuple(word for child in value_node.children if child.type not in ("(", ")", "comment")
                          for word in self.words(child, depth))  # fmt: skip
            if append and before and before.sure:
                words = (*before.words, *words)
            return Variable(name, words, keep_export, array=True, place=place)
        word = self.word(value_node, depth)
        if append:
            if before is None or not before.sure:
                return Variable(name, (word,), keep_export, sure=False, place=place)
            return Variable(
                name, (*before.words, word), keep_export, text=before.expanded + word.expanded, place=place
            )
        return Variable(name, (word,), keep_export, place=place)

    # -- words
    # ---------------------------------------------------------------------------------------------------------

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
                    return list(variable.words)
                if (
                    inner is node
                    and not variable.array
                    and len(variable.words) == 1
                    and " " in variable.expanded.strip()
                ):
                    return _split(variable.words[0])
        return [self.word(node, depth)]

    def word(self, node: Any, depth: int) -> Word:
        references: list[Reference] = []
        substitutions: list[Command] = []
        expanded = self.expand(node, references, substitutions, depth)
        return Word(self.span(node), expanded, tuple(references), tuple(substitutions),
                    node.type in ("string", "raw_string", "ansi_c_string"))  # fmt: skip

    def expand(self, node: Any, references: list[Reference], substitutions: list[Command], depth: int) -> str:
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


Handler = Callable[[_Walker, Any, frozenset[str], int], None]


def _on_command(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    walker.command(node, context, depth)


def _on_assignment(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    variable = walker.assignment(node, exported=False, depth=depth)
    if variable:
        walker.set({variable.name: variable})


def _on_declaration(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    exported = bool(node.children) and walker.raw(node.children[0]) in ("export",)
    changed: dict[str, Variable] = {}
    for child in node.children[1:]:
        if child.type == "word" and walker.raw(child).startswith("-"):
            exported = exported or "x" in walker.raw(child)
        elif child.type == "variable_assignment":
            variable = walker.assignment(child, exported=exported, depth=depth)
            if variable:
                changed[variable.name] = variable
                walker.set({variable.name: variable})
        elif child.type in ("variable_name", "word"):
            name = walker.raw(child)
            known = walker.variables.get(name)
            if exported and known:
                changed[name] = replace(known, exported=True)
            elif name.isidentifier() and known is None:
                changed[name] = Variable(name, (), exported, sure=False, place=walker.span(child))
    walker.set(changed)


def _on_function(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    name_node = node.child_by_field_name("name")
    body = node.child_by_field_name("body")
    if name_node is not None and body is not None:
        walker.bodies[walker.raw(name_node)] = body
        walker.script.functions[walker.raw(name_node)] = walker.span(name_node)


def _on_redirected(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    body: Text | None = None
    output: Word | None = None
    piped: list[Any] = []
    for child in node.children:
        if child.type == "heredoc_redirect":
            for part in child.children:
                if part.type == "heredoc_body":
                    body = walker.text.piece(walker.at(part.start_byte), walker.at(part.end_byte))
                elif part.type == "file_redirect" and output is None:
                    output = walker.word(part.children[-1], depth)
                elif part.type in ("pipeline", "command", "redirected_statement", "list"):
                    piped.append(part)
        elif child.type == "file_redirect" and child.children and walker.raw(child).lstrip().startswith(">"):
            output = walker.word(child.children[-1], depth)
    inner = node.child_by_field_name("body") or node.children[0]
    start = len(walker.script.commands)
    walker.statement(inner, context, depth + 1)
    for part in piped:
        walker.statement(part, context | {"pipeline"}, depth + 1)
    commands = walker.script.commands
    if body is None and output is None:
        return
    for number in range(start, len(commands)):
        if inner.type in ("command", "pipeline") or body is not None:
            commands[number] = replace(commands[number], body=body, output=output)
    if body is not None:
        targets = [output] if output is not None else []
        targets += [word for command in commands[start:] if command.name == "tee" for word in command.arguments]
        for target in targets:
            if target.known and not target.known.startswith("-") and target.known != "/dev/null":
                body.name = target.known
                walker.script.files[target.known] = body


def _on_branches(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    """Each branch starts from the same variables; what differs afterwards is no longer sure."""
    inside = context | {"conditional"}
    before = walker.variables
    ends: list[dict[str, Variable]] = []
    has_else = False
    for child in node.children:
        if child.type in ("elif_clause", "else_clause", "case_item"):
            has_else = has_else or child.type == "else_clause"
            ends.append(walker.variables)
            walker.variables = before
            walker.block(child, inside, depth + 1)
        else:
            walker.statement(child, inside, depth + 1)
    ends.append(walker.variables)
    if not has_else:
        ends.append(before)
    walker.variables = _merge(before, ends)


def _merge(before: dict[str, Variable], ends: list[dict[str, Variable]]) -> dict[str, Variable]:
    changed = {name for end in ends for name, value in end.items() if before.get(name) is not value}
    merged = dict(before)
    for name in changed:
        values = [end.get(name) for end in ends]
        last = next(value for value in reversed(values) if value is not None)
        same = all(v is not None and v.sure and v.expanded == last.expanded for v in values)
        merged[name] = last if same and PLACEHOLDER not in last.expanded else replace(last, sure=False)
    return merged


def _on_loop(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    before = walker.variables
    if node.type in ("for_statement", "select_statement"):
        for child in node.children:
            if child.type == "variable_name":
                name = walker.raw(child)
                walker.set({name: Variable(name, origin="loop", sure=False, place=walker.span(child))})
                break
    walker.block(node, context | {"loop"}, depth + 1)
    walker.variables = _merge(before, [walker.variables, before])


def _on_subshell(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    saved = walker.variables
    walker.block(node, context | {"subshell"}, depth + 1)
    walker.variables = saved


def _on_pipeline(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    saved = walker.variables
    walker.block(node, context | {"pipeline"}, depth + 1)
    walker.variables = saved


def _on_list(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    """``a && b``: the second part is guarded by the first."""
    children = node.children
    for number, child in enumerate(children):
        after = children[number - 1].type if number else ""
        walker.statement(child, context | {"guarded"} if after in ("&&", "||") else context, depth + 1)


def _ignore(walker: _Walker, node: Any, context: frozenset[str], depth: int) -> None:
    """Tests set nothing that matters here."""


_HANDLERS: dict[str, Handler] = {
    "command": _on_command,
    "variable_assignment": _on_assignment,
    "declaration_command": _on_declaration,
    "function_definition": _on_function,
    "redirected_statement": _on_redirected,
    "if_statement": _on_branches,
    "case_statement": _on_branches,
    "for_statement": _on_loop,
    "c_style_for_statement": _on_loop,
    "while_statement": _on_loop,
    "select_statement": _on_loop,
    "subshell": _on_subshell,
    "pipeline": _on_pipeline,
    "list": _on_list,
    "test_command": _ignore,
    "unset_command": _ignore,
}


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
