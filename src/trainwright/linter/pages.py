"""Rule pages: Markdown beside each rule, whose fenced ``bad`` and ``good`` blocks are the rule's fixtures.

Takes a rule id; gives the page's text and its examples. ``trainwright rule`` prints the page, the tests run the
examples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from trainwright.linter.rule import page_path
from trainwright.linter.rules import RULES

_BLOCK = re.compile(r"^```(\w+) +(bad|good)([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_EXTENSIONS = {"yaml": "yaml", "json": "json", "bash": "sh", "python": "py", "markdown": "md"}


@dataclass
class Example:
    """One example: ``texts`` by file name. A ``bad`` one must be found, a ``good`` one must not."""

    label: str
    texts: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def page(rule_id: str) -> str:
    """The page of a rule as Markdown."""
    return page_path(RULES[rule_id].partition(":")[0]).read_text("utf-8")


def examples(rule_id: str) -> list[Example]:
    """The examples of a page. The info string is ``<language> bad|good [+] [name=FILE] [versions=a=1,b=2]``; "+"
    adds a file to the example before it."""
    found: list[Example] = []
    for match in _BLOCK.finditer(page(rule_id)):
        language, label, info, body = match.groups()
        options = dict(part.split("=", 1) for part in info.split() if "=" in part)
        joined = "+" in info.split() and bool(found)
        example = found[-1] if joined else Example(label)
        name = options.get("name", f"example{len(example.texts) or ''}.{_EXTENSIONS.get(language, language)}")
        example.texts[name] = body
        example.versions.update(dict(p.split("=", 1) for p in options.get("versions", "").split(",") if p))
        if not joined:
            found.append(example)
    return found
