"""JupyterHub profiles, wherever they are written: ``singleuser.profileList`` of the Helm chart, or
``c.KubeSpawner.profile_list`` of a ``jupyterhub_config.py``.

Takes the project; gives Profiles with the place of each override. What a program computes is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.linter.documents import ConfigDocument, Document, PythonDocument
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.text import Span
from trainwright.linter.view.python import nodes


@dataclass(frozen=True)
class Entry:
    """One entry of ``kubespawner_override``: its name, where it stands and its value as plain data (None where it is
    computed)."""

    name: str
    span: Span
    value: object


@dataclass(frozen=True)
class Profile:
    """One profile, or one choice of a profile. ``open``: more overrides may be added by code or a template."""

    display_name: str
    span: Span
    overrides: dict[str, Entry]
    document: Document
    open: bool = False

    def value(self, name: str) -> object:
        """The value of an override, None when it is not there."""
        entry = self.overrides.get(name)
        return entry.value if entry is not None else None

    @property
    def accelerators(self) -> dict[str, float]:
        """Accelerators that the profile asks for."""
        found: dict[str, float] = {}
        for name in ("extra_resource_limits", "extra_resource_guarantees"):
            value = self.value(name)
            for key, count in value.items() if isinstance(value, dict) else ():
                if "gpu" in str(key) or "neuron" in str(key):
                    try:
                        found[str(key)] = float(str(count))
                    except ValueError:
                        continue
        return found


def profiles(project: Project) -> Iterator[Profile]:
    """Every profile and every choice below ``profile_options``."""
    for document in project.configs("helm-values"):
        yield from _from_values(document)
    for module in project.modules:
        yield from _from_python(module)


def plain(node: Node) -> object:
    """A node as plain data; None for what a template decides."""
    if node.type == "mapping":
        return {key.raw: plain(value) for key, value in node.pairs()}
    if node.type == "sequence":
        return [plain(element) for element in node.elements()]
    if node.type in ("int", "float", "bool"):
        return node.scalar
    return node.string


def _from_values(document: ConfigDocument) -> Iterator[Profile]:
    roots = [document.get("singleuser"), document.get("jupyterhub", "singleuser")]
    for entry in (e for root in roots for e in root.get("profileList").elements()):
        yield _profile(entry, document)
        for _, option in entry.get("profile_options").pairs():
            for _, choice in option.get("choices").pairs():
                yield _profile(choice, document)


def _profile(entry: Node, document: Document) -> Profile:
    name, override = entry.get("display_name"), entry.get("kubespawner_override")
    found = {key.raw: Entry(key.raw, key.span, plain(value)) for key, value in override.pairs()}
    return Profile(name.string or "", (name if name.exists else entry).mark, found, document, override.open)


def _from_python(module: PythonDocument) -> Iterator[Profile]:
    if "profile_list" not in module.text.content:
        return
    for statement in nodes(module):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.List):
            continue
        if any(isinstance(t, ast.Attribute) and t.attr == "profile_list" for t in statement.targets):
            for element in statement.value.elts:
                if isinstance(element, ast.Dict):
                    yield _python_profile(element, module)


def _python_profile(element: ast.Dict, module: PythonDocument) -> Profile:
    entries = _entries(element)
    name, override = entries.get("display_name"), entries.get("kubespawner_override")
    found: dict[str, Entry] = {}
    is_open = False
    if isinstance(override, ast.Dict):
        is_open = any(key is None for key in override.keys)
        for key, value in zip(override.keys, override.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                found[key.value] = Entry(key.value, module.span(key), _literal(value))
    shown = name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""
    return Profile(shown, module.span(name or element), found, module, is_open)


def _entries(element: ast.Dict) -> dict[str, ast.expr]:
    return {
        key.value: value
        for key, value in zip(element.keys, element.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _literal(value: ast.expr) -> object:
    try:
        found: object = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return found


def set_in_code(project: Project, name: str) -> bool:
    """Whether a ``jupyterhub_config.py`` assigns a setting of the spawner (``c.KubeSpawner.start_timeout = …``)."""
    return any(
        isinstance(target, ast.Attribute) and target.attr == name
        for module in project.modules
        for statement in nodes(module)
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    )
