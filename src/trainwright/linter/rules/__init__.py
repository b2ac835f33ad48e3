"""Every rule, by id: ``module:Class``, imported on use. One table per family, so that this file never changes."""

from __future__ import annotations

from trainwright.linter.rules.family_0_files import FILES
from trainwright.linter.rules.family_1_launch import LAUNCH
from trainwright.linter.rules.family_2_accelerators import ACCELERATORS
from trainwright.linter.rules.family_3_network import NETWORK
from trainwright.linter.rules.family_4_memory import MEMORY
from trainwright.linter.rules.family_5_lifecycle import LIFECYCLE
from trainwright.linter.rules.family_6_scheduling import SCHEDULING
from trainwright.linter.rules.family_7_operators import OPERATORS
from trainwright.linter.rules.family_8_frameworks import FRAMEWORKS
from trainwright.linter.rules.family_9_platform import PLATFORM

_FAMILIES = (FILES, LAUNCH, ACCELERATORS, NETWORK, MEMORY, LIFECYCLE, SCHEDULING, OPERATORS, FRAMEWORKS, PLATFORM)

RULES: dict[str, str] = {
    rule_id: f"trainwright.linter.rules.{target}" for family in _FAMILIES for rule_id, target in family.items()
}
"""Rule id → "module:Class"."""
