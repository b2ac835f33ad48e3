"""TW863: a word that Accelerate's FSDP settings do not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.errors import did_you_mean
from trainwright.facts.data import read_rows
from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit


class FsdpValue(ConfigRule):
    """Strategies and policies are closed lists."""

    id = "TW863"
    severity = "error"
    category = "frameworks"
    summary = "an FSDP or precision setting of an Accelerate file that Accelerate does not know"
    evidence = "verified"
    source = (
        "accelerate/utils/constants.py and dataclasses.py (1.15): FSDP_SHARDING_STRATEGY, FSDP_AUTO_WRAP_POLICY, "
        "FSDP_STATE_DICT_TYPE, FSDP_BACKWARD_PREFETCH and PrecisionType; other words raise a ValueError"
    )
    roles: ClassVar[tuple[Role, ...]] = ("accelerate",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Enumerated values."""
        for place, row in read_rows("accelerate_values").items():
            node, allowed = subject.get(*place.split(".")), [str(value) for value in row["values"]]
            if node.string is None or node.type != "str" or node.string.lower() in [one.lower() for one in allowed]:
                continue
            if node.string.isdigit() or node.string.lower() in ("", "null", "none", "~"):
                continue
            near = did_you_mean(node.string, allowed)
            yield self.hit(
                node,
                f"{place} is {node.string}, and Accelerate knows {', '.join(allowed)} only: it stops with a "
                "ValueError on every rank",
                near if near.startswith("did") else allowed[0],
            )
