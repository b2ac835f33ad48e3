"""Turn a file into documents: one function per language, and what is embedded in them (scripts in ConfigMaps,
here-documents, fenced blocks, Helm values in an Argo CD Application) as documents of their own.

Takes a Text, gives documents and problems. Never raises on any input.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache

from trainwright.linter import READERS
from trainwright.linter.detect import FENCES, language_of, role_of, sniff
from trainwright.linter.documents import ConfigDocument, Document, KubernetesObject, PythonDocument, ScriptDocument
from trainwright.linter.node import Node
from trainwright.linter.readers.templates import blank_templates
from trainwright.linter.readers.yaml_reader import ReadProblem, read_yaml
from trainwright.linter.text import PLACEHOLDER, Span, Text

Reading = tuple[list[Document], list[ReadProblem]]
_FENCE = re.compile(r"([ \t]*(?:>[ \t]?)?)(`{3,}|~{3,})[ \t]*\{?\.?([\w+-]*)[^`]*$")
_MAX_PYTHON = 400_000
_MAX_LISTS = 3
_SECTIONS = ("training", "train", "trainer", "training_arguments", "training_args", "train_args")
"""Sections of a larger file in which trainers keep their arguments."""


def read_yaml_documents(text: Text) -> Reading:
    """Every document of a YAML file and what is embedded in it."""
    found = read_yaml(text)
    documents: list[Document] = []
    for node in found.documents:
        documents.extend(_classify(node, text, templated=found.templated, json=False))
    return documents, found.problems


def read_json_documents(text: Text) -> Reading:
    """A JSON file, when its role matters here; other JSON is left alone."""
    if "$" in text.content and text.parent is not None:
        text.shown, text.content = text.content, _quote_variables(text.content)
    try:
        json.loads(text.content)
    except (ValueError, RecursionError) as error:
        position = getattr(error, "pos", 0)
        if not re.search(
            r'"(zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|apiVersion)"', text.content
        ):
            return [], []
        end = text.content.find("\n", position)
        span = Span(text, position, len(text.content) if end == -1 else max(end, position + 1))
        code = "syntax" if text.shown is None else "template"
        return [], [ReadProblem(code, span, getattr(error, "msg", "nested too deeply"))]
    found = read_yaml(text, json=True)
    documents: list[Document] = []
    for node in found.documents:
        documents.extend(_classify(node, text, templated=False, json=True))
    # libyaml refuses some characters that JSON allows in texts: such a file is left alone.
    return documents, [problem for problem in found.problems if problem.code != "syntax"]


_JSON_VARIABLE = re.compile(r'"(?:[^"\\\n]|\\.)*"|\$(?:\{[^}"\n]*\}|\w+)')


def _quote_variables(content: str) -> str:
    """JSON that a shell or a template fills in: a bare ``${NAME}`` as a string of placeholders of the same length."""

    def quoted(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else '"' + PLACEHOLDER * (len(found) - 2) + '"'

    return _JSON_VARIABLE.sub(quoted, content)


def read_shell_documents(text: Text) -> Reading:
    """A shell script and the files that its here-documents write."""
    if text.shown is None and ("{{" in text.content or "{% " in text.content):
        # ``${#…}`` is a shell parameter expansion, not a Jinja comment.
        blanked, _ = blank_templates(re.sub(r"\$\{[#%]", lambda m: "$_" + m[0][2], text.content))
        text.shown, text.content = text.content, blanked
    script = ScriptDocument(text, name=text.name)
    documents: list[Document] = [script]
    problems: list[ReadProblem] = []
    if "<<" in text.content:
        for name, body in script.plain.files.items():
            inner, trouble = read_text(body, name)
            documents.extend(_held(inner, script, name))
            problems.extend(trouble)
        for command in script.plain.commands:
            if command.body is not None and command.output is None and command.name.startswith(("python", "sbatch")):
                reader = read_python_documents if command.name.startswith("python") else read_shell_documents
                inner, trouble = reader(command.body)
                documents.extend(_held(inner, script, f"{command.name} <<"))
    return documents, problems


def read_python_documents(text: Text) -> Reading:
    """A Python file; notebook magics are blanked."""
    content = text.content
    if len(content) > _MAX_PYTHON:
        return [], [ReadProblem("size", Span(text, 0, 1), f"more than {_MAX_PYTHON} characters of Python")]
    if re.search(r"^[ \t]*[%!]", content, re.MULTILINE):
        content = re.sub(
            r"^([ \t]*)([%!].*)$", lambda m: m[1] + "#" + " " * (len(m[2]) - 1), content, flags=re.MULTILINE
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
    except SyntaxError as error:
        start = sum(len(line) for line in content.splitlines(keepends=True)[: (error.lineno or 1) - 1])
        end = content.find("\n", start)
        return [], [ReadProblem("python", Span(text, start, len(content) if end == -1 else end), error.msg)]
    except (ValueError, RecursionError, MemoryError) as error:
        return [], [ReadProblem("python", Span(text, 0, 1), str(error) or "nested too deeply")]
    return [PythonDocument(text, name=text.name, tree=tree)], []


def read_markdown_documents(text: Text) -> Reading:
    """Every fenced block in a language that is read here. A block that does not parse is a fragment, not
    a problem.
    """
    documents: list[Document] = []
    opened: re.Match[str] | None = None
    start = at = 0
    for line in text.content.splitlines(keepends=True):
        bare = line.rstrip()
        if opened is None:
            opened = _FENCE.match(bare)
            start = at + len(line)
        elif bare.lstrip(" \t>") == opened[2]:
            content = text.content[start:at]
            language = FENCES.get(opened[3].lower()) or ("shell" if "#SBATCH" in content else None)
            if language is not None:
                documents.extend(_reader(language)(_dedent(text, start, at, len(opened[1])))[0])
            opened = None
        at += len(line)
    return documents, []


def _dedent(text: Text, start: int, end: int, indent: int) -> Text:
    """The lines of a fenced block without the fence's own indentation."""
    if not indent:
        return text.piece(start, end)
    out: list[str] = []
    offsets: list[int] = []
    at = start
    for line in text.content[start:end].splitlines(keepends=True):
        cut = min(indent, len(line) - len(line.lstrip(" \t>")))
        out.append(line[cut:])
        offsets.extend(range(at + cut, at + len(line)))
        at += len(line)
    offsets.append(end)
    return Text(text.path, "".join(out), text, offsets, name=text.name)


def read_text(text: Text, name: str) -> Reading:
    """Read by name, else by content. The entry for files and for everything embedded."""
    language = language_of(name, text.content)
    return _reader(language)(text) if language in READERS else ([], [])


@cache
def _reader(language: str) -> Callable[[Text], Reading]:
    module, _, name = READERS[language].partition(":")
    found: Callable[[Text], Reading] = getattr(importlib.import_module(module), name)
    return found


def _held(documents: list[Document], holder: Document, name: str) -> Iterator[Document]:
    for document in documents:
        if document.holder is None:
            document.holder, document.name = holder, name
        yield document


def _classify(node: Node, text: Text, *, templated: bool, json: bool, depth: int = 0) -> Iterator[Document]:
    """A top-level node as documents; a List is its items. Lists in Lists end somewhere: an alias can make a cycle."""
    if depth > _MAX_LISTS:
        return
    if node.type == "sequence":
        for element in node.elements():
            if element.type == "mapping" and role_of(element) == "kubernetes":
                yield from _classify(element, text, templated=templated, json=json, depth=depth + 1)
        return
    if node.type != "mapping":
        return
    role = role_of(node)
    if role != "kubernetes":
        document = ConfigDocument(text, name=text.name, node=node, role=role, json=json)
        yield document
        yield from _embedded_in_config(document)
        if role == "other":
            for section in (node.get(name) for name in _SECTIONS):
                if section.type == "mapping" and role_of(section) == "training":
                    yield ConfigDocument(text, name=text.name, node=section, role="training", json=json)
        return
    if node.get("kind").string == "List" or (
        node.get("items").type == "sequence" and (node.get("kind").string or "").endswith("List")
    ):
        for element in node.get("items").elements():
            yield from _classify(element, text, templated=templated, json=json, depth=depth + 1)
        return
    found = KubernetesObject(text, name=text.name, node=node, templated=templated)
    yield found
    yield from _embedded_in_object(found)


def _embedded_in_object(found: KubernetesObject) -> Iterator[Document]:
    if found.kind in ("ConfigMap", "Secret"):
        for key, value in (*found.get("data").pairs(), *found.get("stringData").pairs()):
            if found.kind == "ConfigMap" or key in [k for k, _ in found.get("stringData").pairs()]:
                yield from _embedded(value, found, key.raw)
    elif found.kind == "EC2NodeClass":
        user_data = found.get("spec", "userData")
        if user_data.raw and "[settings" not in user_data.raw:
            yield from _held(read_shell_documents(user_data.as_text("userData"))[0], found, "userData")
    elif found.kind == "Application":
        sources = [found.get("spec", "source"), *found.get("spec", "sources").elements()]
        for source in sources:
            values = source.get("helm", "values")
            if values.raw:
                for document in read_yaml_documents(values.as_text("values.yaml"))[0]:
                    if isinstance(document, ConfigDocument):
                        document.role = "helm-values"
                    yield from _held([document], found, "values.yaml")
            inline = source.get("helm", "valuesObject")
            if inline.type == "mapping":
                yield ConfigDocument(found.text, "values.yaml", found, node=inline, role="helm-values")


def _embedded_in_config(document: ConfigDocument) -> Iterator[Document]:
    if document.role == "helm-values":
        for key, value in document.get("hub", "extraConfig").pairs():
            if value.raw:
                yield from _held(read_python_documents(value.as_text(key.raw))[0], document, key.raw)


def _embedded(value: Node, holder: Document, name: str) -> Iterator[Document]:
    raw = value.raw
    if "\n" not in raw.strip() and not raw.startswith("{"):
        return
    text = value.as_text(name)
    language = language_of(name, raw) if "." in name else sniff(raw)
    if language in READERS:
        yield from _held(_reader(language)(text)[0], holder, name)
