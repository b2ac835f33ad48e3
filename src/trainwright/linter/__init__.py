"""The linter: what will hang, crash, waste or silently corrupt a training job, found before it is submitted.

``lint`` reads manifests, scripts, configuration, Python and Markdown and gives Findings. Names of rules and readers
are in the registries ``RULES`` and ``READERS``; nothing is imported before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.linter.finding import Finding

READERS: dict[str, str] = {
    "yaml": "trainwright.linter.readers.documents:read_yaml_documents",
    "json": "trainwright.linter.readers.documents:read_json_documents",
    "shell": "trainwright.linter.readers.documents:read_shell_documents",
    "python": "trainwright.linter.readers.documents:read_python_documents",
    "markdown": "trainwright.linter.readers.documents:read_markdown_documents",
}
"""Language → "module:function" from Text to documents and problems."""


def lint(paths: Iterable[str | Path], *, select: Sequence[str] = (), ignore: Sequence[str] = (),
         versions: Mapping[str, str] | None = None) -> list[Finding]:  # fmt: skip
    """Findings on files and folders, sorted by place. Never raises on the content of a file.

    ``select`` and ``ignore`` are prefixes of rule ids; ``versions`` fixes components that rules depend on
    (``{"kubernetes": "1.33"}``).
    """
    from trainwright.linter.engine import Options, lint_paths

    return lint_paths(paths, Options(select, ignore, versions or {}))


def __getattr__(name: str) -> object:
    if name == "RULES":
        from trainwright.linter.rules import RULES

        return RULES
    raise AttributeError(name)
