"""Every message that says how to install something names an extra that exists."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path


def named_extras(repository: Path) -> dict[str, str]:
    """Extra → where it is named, for every ``MissingExtra(…, "extra")`` in the sources."""
    found = {}
    for path in sorted((repository / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingExtra":
                extra = node.args[1]
                if isinstance(extra, ast.Constant):
                    found[str(extra.value)] = f"{path.relative_to(repository)}:{node.lineno}"
    return found


def test_every_extra_that_a_message_names_can_be_installed(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    named = named_extras(repository)
    assert {"train", "report"} <= set(named)
    assert {extra: where for extra, where in named.items() if extra not in project["optional-dependencies"]} == {}
