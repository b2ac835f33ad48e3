"""Follow a shell script from top to bottom: which commands it starts, with which words, variables and input.

Takes a Text and the variables that come from outside; gives a Script. It follows assignments, exports, arrays,
functions, branches, loops, here-documents and simple arithmetic. What only a run can tell becomes a placeholder.
Must not know schedulers or training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from trainwright.linter.shell.expansion import MAX_CHARACTERS, MAX_DEPTH, MAX_WORDS, Expansion, Script
from trainwright.linter.shell.words import Command, Variable, Word
from trainwright.linter.text import PLACEHOLDER, Text

MAX_COMMANDS = 4_000
MAX_STATEMENTS = 50_000
MAX_VARIABLES = 500


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


class _Walker(Expansion):
    """Follows statements; knows which functions are defined and which are being called."""

    followed = 0

    def block(self, node: Any, context: frozenset[str], depth: int) -> None:
        """Follow the statements below a node, in order."""
        if depth > MAX_DEPTH:
            return
        children = node.children
        for number, child in enumerate(children):
            follows = children[number + 1].type if number + 1 < len(children) else ""
            self.statement(child, context | {"background"} if follows == "&" else context, depth + 1)

    def statement(self, node: Any, context: frozenset[str], depth: int) -> None:
        self.followed += 1
        if depth > MAX_DEPTH or len(self.script.commands) > MAX_COMMANDS or self.followed > MAX_STATEMENTS:
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
            tuple(words[:MAX_WORDS]), self.span(node), {**self.variables, **prefix} if prefix else self.variables,
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
        known = self.variables
        if len(known) >= MAX_VARIABLES:
            changed = {name: variable for name, variable in changed.items() if name in known}
        if changed:
            self.variables = {**known, **changed}

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
            return Variable(name, words[:MAX_WORDS], keep_export, array=True, place=place)
        word = self.word(value_node, depth)
        if append:
            if before is None or not before.sure:
                return Variable(name, (word,), keep_export, sure=False, place=place)
            text = before.expanded + word.expanded
            if len(before.words) >= MAX_WORDS or len(text) > MAX_CHARACTERS:
                return Variable(name, (word,), keep_export, sure=False, place=place)
            return Variable(name, (*before.words, word), keep_export, text=text, place=place)
        return Variable(name, (word,), keep_export, place=place)


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
                    body = _here_document(walker, part, tabs=walker.raw(child).startswith("<<-"))
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
            if target.known and not target.known.startswith(("-", "/dev/")) and not target.known.isdigit():
                body.name = target.known
                walker.script.files[target.known] = body


def _here_document(walker: _Walker, node: Any, *, tabs: bool) -> Text:
    """The body from the beginning of its first line, which the parser leaves out when it is indented; ``<<-`` drops
    the tabs in front of each line."""
    content = walker.text.content
    start, end = walker.at(node.start_byte), walker.at(node.end_byte)
    while start > 0 and content[start - 1] in " \t":
        start -= 1
    if not tabs:
        return walker.text.piece(start, end)
    out: list[str] = []
    offsets: list[int] = []
    for line in content[start:end].splitlines(keepends=True):
        kept = line.lstrip("\t")
        offsets.extend(range(start + len(line) - len(kept), start + len(line)))
        out.append(kept)
        start += len(line)
    return Text(walker.text.path, "".join(out), walker.text, [*offsets, end], name=walker.text.name)


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
