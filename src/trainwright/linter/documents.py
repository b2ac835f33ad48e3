"""Documents: what one text turned out to be, after reading. Rules and the view get these, never text.

``KubernetesObject``, ``ConfigDocument`` (DeepSpeed, Accelerate, trainer arguments, Helm values, our specs, other),
``ScriptDocument`` (shell, sbatch) and ``PythonDocument``. Each knows the file it stands in and, when it was embedded
(ConfigMap entry, here-document, fenced block, userData), the name it has there and the document that holds it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from trainwright.linter.node import Node
from trainwright.linter.shell.expansion import Script
from trainwright.linter.shell.sbatch import Directives, read_directives
from trainwright.linter.shell.walk import walk_script
from trainwright.linter.text import Span, Text

Role = Literal["deepspeed", "accelerate", "training", "helm-values", "spec", "fsdp", "other"]


@dataclass(eq=False)
class Document:
    """Common part: the text, the name it would have as a file, and the document it is embedded in."""

    text: Text
    name: str = ""
    holder: Document | None = field(default=None, repr=False)

    @property
    def path(self) -> str:
        """The outermost file."""
        return self.text.path

    @property
    def top(self) -> Span:
        """The first line: where a finding about the document as a whole points."""
        content = self.text.content
        start = len(content) - len(content.lstrip())
        end = content.find("\n", start)
        return Span(self.text, min(start, max(0, len(content) - 1)), len(content) if end == -1 else end)


@dataclass(eq=False)
class KubernetesObject(Document):
    """One object of a manifest."""

    node: Node = field(kw_only=True, repr=False)
    templated: bool = False
    found: dict[str, Any] = field(default_factory=dict, repr=False)
    """What the view has read from it once: with many jobs and pools in one folder, every pair of them is compared."""

    def get(self, *path: str | int) -> Node:
        """The node at a path; see ``Node.get``."""
        return self.node.get(*path)

    @cached_property
    def kind(self) -> str:
        """``kind``, "" when unknown."""
        return self.node.get("kind").string or ""

    @cached_property
    def api_version(self) -> str:
        """``apiVersion``, "" when unknown."""
        return self.node.get("apiVersion").string or ""

    @property
    def group(self) -> str:
        """API group, "" for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """API version without the group."""
        return self.api_version.rpartition("/")[2]

    @cached_property
    def metadata(self) -> Node:
        """``metadata``."""
        return self.node.get("metadata")

    @cached_property
    def object_name(self) -> str | None:
        """``metadata.name``."""
        return self.metadata.get("name").string

    @cached_property
    def namespace(self) -> str | None:
        """``metadata.namespace`` as written."""
        return self.metadata.get("namespace").string

    @property
    def top(self) -> Span:
        """The name of the object, or its kind."""
        name = self.metadata.get("name")
        return name.span if name.exists else self.node.get("kind").mark


@dataclass(eq=False)
class ConfigDocument(Document):
    """A configuration file of a known role."""

    node: Node = field(kw_only=True, repr=False)
    role: Role = "other"
    json: bool = False

    def get(self, *path: str | int) -> Node:
        """The node at a path; see ``Node.get``."""
        return self.node.get(*path)


@dataclass(eq=False)
class ScriptDocument(Document):
    """A shell script; ``directives`` are its ``#SBATCH`` lines."""

    @cached_property
    def directives(self) -> Directives:
        """What Slurm reads in it."""
        return read_directives(self.text)

    @property
    def is_sbatch(self) -> bool:
        """Whether it is meant for ``sbatch``."""
        named = (self.name if self.holder is not None else self.path).endswith((".sbatch", ".slurm"))
        return bool(self.directives.flags.used or self.directives.late) or named

    @cached_property
    def plain(self) -> Script:
        """What it does when nothing is known from outside."""
        return walk_script(self.text)


@dataclass(eq=False)
class PythonDocument(Document):
    """A Python file that parses. ``notebook`` magic lines were blanked."""

    tree: ast.Module = field(kw_only=True, repr=False)
    found: dict[str, Any] = field(default_factory=dict, repr=False)
    """What was already found out about this file (by the name of the finder): twenty rules ask for the same."""

    def span(self, node: ast.AST) -> Span:
        """Where an ``ast`` node stands."""
        starts = self._line_starts
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line, end_column = (
            getattr(node, "end_lineno", None) or line,
            getattr(node, "end_col_offset", None) or column,
        )
        return Span(self.text, self._offset(starts, line, column), self._offset(starts, end_line, end_column))

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for number, char in enumerate(self.text.content):
            if char == "\n":
                starts.append(number + 1)
        return starts

    def _offset(self, starts: list[int], line: int, column: int) -> int:
        if line > len(starts):
            return len(self.text.content)
        start = starts[line - 1]
        end = starts[line] if line < len(starts) else len(self.text.content)
        text = self.text.content[start:end]
        # ast counts columns in UTF-8 bytes.
        return start + (column if text.isascii() else len(text.encode()[:column].decode("utf-8", "ignore")))
