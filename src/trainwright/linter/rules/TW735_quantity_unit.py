"""TW735: an amount in a unit that Kubernetes does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.values import quantity

_SUSPECT = re.compile(
    r"(?i:\d\s*(?:v?cpus?|v?cores?|gpus?|bytes?|gigs?)[\"']?\s*(?:[\n,}]|$))|\d\s*(?:[KMGTPE]i?[Bb]|[kmgtpe]i?b|[mgtpe]i|[gtpK]|[Kk][Bb]|ki)\b|\d\s+[KMGTP]i?\b",
    re.ASCII,
)
_MILLI_BYTES = re.compile(r"(memory|storage)[\"']?\s*:\s*[\"']?\d+m\b")
_MAPS = (
    "limits",
    "requests",
    "hard",
    "capacity",
    "default",
    "defaultRequest",
    "max",
    "min",
    "overhead",
    "capability",
)
_PLAIN = ("nominalQuota", "borrowingLimit", "lendingLimit", "sizeLimit", "volumeSize")
_BYTES = ("memory", "storage", "ephemeral-storage")
_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


class QuantityUnit(ObjectRule):
    """Ki, Mi, Gi, Ti are powers of 1024; k, M, G, T of 1000; nothing else."""

    id = "TW735"
    severity = "error"
    category = "operators"
    summary = "an amount in a unit that Kubernetes does not know"
    evidence = "verified"
    source = "k8s.io/apimachinery pkg/api/resource/quantity.go and suffix.go: Ki Mi Gi Ti Pi Ei, n u m k M G T P E"

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Amounts of resources and sizes of volumes, where the text has something that looks like a wrong unit."""
        content = subject.text.content[subject.node.start : subject.node.end]
        if subject.kind in ("ConfigMap", "Secret", "CustomResourceDefinition"):
            return
        if not (_SUSPECT.search(content) or _MILLI_BYTES.search(content)):
            return
        for node in subject.node.walk():
            if node.type != "mapping":
                continue
            for key, value in node.pairs():
                if key.raw in _MAPS and value.type == "mapping":
                    for name, amount in value.pairs():
                        yield from self._amount(name.raw, amount)
                elif key.raw in _PLAIN:
                    yield from self._amount("storage" if key.raw != "nominalQuota" else "", value)

    def _amount(self, resource: str, value: Node) -> Iterator[Hit]:
        text = value.string
        if text is None or value.unknown or not re.match(r"\d", text):
            return
        unit = _UNIT.fullmatch(text.strip())
        if quantity(text) is None and unit is not None:
            right = f"{unit[1]}{_nearest(unit[2])}"
            yield self.hit(
                value,
                f"{text!r} is no amount: the units are Ki, Mi, Gi, Ti (powers of 1024) and k, M, G, T (of 1000), and "
                "the API server refuses the object",
                right,
                fix=[value.span.edit(right)] if value.plain and right[-1].isalpha() else (),
            )
        elif resource in _BYTES and unit is not None and unit[2] == "m":
            yield self.hit(
                value,
                f"{text} of {resource} are thousandths of a byte (m is milli): the container is killed for its "
                "memory at once, or no volume is made",
                f"{unit[1]}Mi",
                severity="warning",
            )


def _nearest(unit: str) -> str:
    letter = unit[:1]
    if letter.lower() not in "kmgtpe":
        return ""
    return f"{letter.upper()}i"
