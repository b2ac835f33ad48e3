"""TW619: networkInterfaces that Karpenter refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class NetworkInterfacesInvalid(ObjectRule):
    """A primary interface, unique places, one EFA device a card."""

    id = "TW619"
    severity = "error"
    category = "scheduling"
    summary = "networkInterfaces lack the primary interface or name a place twice"
    evidence = "verified"
    source = "Karpenter v1.14 CRD ec2nodeclasses.karpenter.k8s.aws, rules on spec.networkInterfaces (since 1.11)"
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """All entries of the list."""
        listed = subject.get("spec", "networkInterfaces")
        if listed.open or listed.unknown or not listed.elements():
            return
        places: set[tuple[int, int]] = set()
        cards: set[int] = set()
        primary = False
        for entry in listed.elements():
            card, device = entry.get("networkCardIndex").integer, entry.get("deviceIndex").integer
            kind = entry.get("interfaceType").string
            if card is None or device is None or kind is None or entry.open:
                return
            primary = primary or (card, device, kind) == (0, 0, "interface")
            if (card, device) in places:
                yield self.hit(
                    entry,
                    f"card {card}, device {device} is named twice: the API server refuses the object",
                    "every pair of networkCardIndex and deviceIndex once",
                )
            if kind == "efa-only" and card in cards:
                yield self.hit(
                    entry,
                    f"card {card} has two efa-only interfaces and can hold one: the API server refuses the object",
                    "one efa-only interface for each network card",
                )
            places.add((card, device))
            if kind == "efa-only":
                cards.add(card)
        if not primary:
            yield self.hit(
                listed,
                "there is no primary interface, so the API server refuses the object",
                "{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface} as the first entry",
            )
