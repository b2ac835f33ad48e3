"""TW621: a capacity reservation that the pool does not use, or has not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.machines import pool_requirement
from trainwright.linter.view.nodepools import CAPACITY, node_class


class ReservationNotUsed(ObjectRule):
    """``reserved`` in the pool and the reservation in the class belong together."""

    id = "TW621"
    severity = "warning"
    category = "scheduling"
    summary = "capacity reservations and the capacity type reserved do not go together"
    evidence = "verified"
    source = "Karpenter v1.14 documentation: capacity type reserved, capacityReservationSelectorTerms (since 1.3)"
    kinds: ClassVar[tuple[str, ...]] = ("NodePool",)
    groups: ClassVar[tuple[str, ...]] = ("karpenter.sh",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """The pool's capacity types against its class."""
        found = node_class(subject, project)
        kinds = pool_requirement(subject, CAPACITY)
        if found is None or not kinds or found.get("spec").open:
            return
        terms = found.get("spec", "capacityReservationSelectorTerms")
        values = {kind.value for kind in kinds}
        if terms.elements() and "reserved" not in values:
            yield self.hit(
                kinds[0],
                f"node class {found.object_name!r} selects capacity reservations, but this pool allows only "
                f"{', '.join(sorted(values))}: the reservation is paid and never used",
                "reserved among the values of karpenter.sh/capacity-type",
            )
        elif values == {"reserved"} and terms.absent:
            yield self.hit(
                kinds[0],
                f"this pool starts reserved capacity only, and node class {found.object_name!r} selects no capacity "
                "reservation: no node is ever started",
                "capacityReservationSelectorTerms: [{id: cr-…}] in the EC2NodeClass",
            )
