"""TW753: a number where a text belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.fields import departures

_ARTICLES = {
    "string": "a text", "str": "a text", "integer": "a whole number", "int": "a number", "float": "a number",
    "number": "a number", "boolean": "true or false", "bool": "a boolean", "scalar": "a number or a text",
    "mapping": "a mapping", "sequence": "a list",
}  # fmt: skip


_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|<.*>|\.{3}|…")
"""NUM_NODES, <count>: what somebody, or sed, puts a value in for."""


class WrongType(ObjectRule):
    """YAML's types must be those of the field."""

    id = "TW753"
    severity = "error"
    category = "operators"
    summary = "a value of the wrong type"
    evidence = "reproduced"
    source = (
        "types of the Kubernetes OpenAPI and the operators' CRDs (facts/fields.json); reproduced: the "
        'API server answers "cannot unmarshal number into Go struct field EnvVar.value of type string"'
    )

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Types that differ."""
        if subject.templated:
            return
        for departure in departures(subject):
            if departure.kind != "type" or "annotations" in departure.path[-2:-1]:
                continue
            node, wanted = departure.node, departure.shape
            if node.type == "str" and node.plain and _PLACEHOLDER.fullmatch(node.raw):
                continue
            right = (
                "a list"
                if wanted.items is not None
                else "a mapping"
                if not wanted.scalar
                else _ARTICLES[wanted.scalar]
            )
            quote = wanted.scalar == "string" and node.type in ("int", "float", "bool")
            unquote = wanted.scalar in ("integer", "boolean") and node.type == "str" and not node.plain
            yield self.hit(
                node,
                f"{departure.name} of a {subject.kind} is {_ARTICLES.get(node.type, node.type)}, and the API server "
                f"wants "
                f"{right}: it refuses the object",
                f'{departure.name}: "{node.raw}"' if quote else f"{departure.name}: {node.raw}" if unquote else right,
                fix=[node.span.edit(f'"{node.raw}"')] if quote else (),
            )
