"""TW205: an accelerator resource by a name that no device plugin offers."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)


def _nearly(name: str, right: str) -> bool:
    """Whether one differs from the other by capitals or by one letter."""
    short, long = sorted((name.lower(), right.lower()), key=len)
    if short == long:
        return True
    if "/" not in name or len(long) - len(short) > 1 or len(short) < 8:
        return False
    if len(short) == len(long):
        return sum(a != b for a, b in zip(short, long, strict=True)) == 1
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


class ResourceNameUnknown(PodRule):
    """A resource exists only under its plugin's exact name."""

    id = "TW205"
    severity = "error"
    category = "accelerators"
    summary = "an accelerator resource by a name that no device plugin offers"
    evidence = "verified"
    source = (
        "device plugins of NVIDIA (0.17), AWS Neuron (2.32), AWS EFA (0.5.20), AMD; kubernetes validation "
        "of resource names"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Keys of limits and requests."""
        table = read_rows("resources")
        known = [name for name, row in table.items() if not row.get("instead")]
        for container in subject.group.containers:
            seen: set[str] = set()
            for part in ("limits", "requests"):
                for key, _ in container.asked(part).pairs():
                    name = key.raw
                    if (
                        name in seen
                        or name in known
                        or name.startswith(("hugepages-", "nvidia.com/mig-", "attachable-volumes-"))
                    ):
                        continue
                    seen.add(name)
                    row = table.get(name, {})
                    right = row.get("instead") or next((k for k in known if _nearly(name, k)), None)
                    if right is None or key.unknown:
                        continue
                    why = (
                        f"no device plugin offers {name}: the pods stay Pending for ever"
                        if "/" in name
                        else f"{name} is no resource: it has no domain, so the API server refuses the pod"
                    )
                    yield self.hit(
                        key,
                        row.get("why", why),
                        right,
                        severity=row.get("severity"),
                        fix=[key.span.edit(right)] if key.plain else (),
                    )
