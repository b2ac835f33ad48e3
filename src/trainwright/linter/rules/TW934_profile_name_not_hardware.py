"""TW934: the profile's name promises other hardware than it selects."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.view.machines import instance
from trainwright.linter.view.profiles import profiles

_NAMED = re.compile(r"(?<![A-Za-z0-9])(A100|H100|H200|B200|L4|L40S|A10G|T4|V100)(?![A-Za-z0-9])", re.IGNORECASE)
_COUNT = re.compile(
    r"(?<!\w)(\d{1,2})\s*(?:x|×)\s*(?:nvidia\s*)?(?:A100|H100|H200|B200|L4|L40S|A10G|T4|V100|GPU)", re.IGNORECASE
)


class ProfileNameNotHardware(ProjectRule):
    """Users believe the label."""

    id = "TW934"
    severity = "warning"
    category = "charts"
    summary = "a profile's name promises other accelerators than it gives"
    evidence = "verified"
    source = "EC2 instance types (facts/instances.json)"

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """Names against node selectors and counts."""
        for profile in profiles(project):
            selector = profile.value("node_selector")
            types_named = selector.get("node.kubernetes.io/instance-type") if isinstance(selector, dict) else None
            machine = instance(types_named) if isinstance(types_named, str) else None
            promised = _NAMED.search(profile.display_name)
            if promised and machine is not None and promised[1].lower() not in machine.accelerator.name.lower():
                yield self.hit(
                    profile.span,
                    f"the profile says {promised[1].upper()}, and {types_named} has {machine.count} "
                    f"{machine.accelerator.name}",
                    "the name of what it gives, or the instance type that has it",
                )
                continue
            count = _COUNT.search(profile.display_name)
            given = profile.accelerators.get("nvidia.com/gpu")
            if count and given is not None and int(count[1]) != int(given):
                yield self.hit(
                    profile.span,
                    f"the profile says {count[1]} GPUs, and it asks for {given:.0f}",
                    f'extra_resource_limits: {{nvidia.com/gpu: "{count[1]}"}}, or another name',
                )
