"""TW858: FSDP shards the whole model as one unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit


class FsdpWithoutUnits(ConfigRule):
    """A unit is gathered as a whole."""

    id = "TW858"
    severity = "warning"
    category = "frameworks"
    summary = "FSDP without a wrap policy gathers the whole model at once"
    evidence = "verified"
    source = (
        "accelerate/utils/dataclasses.py (1.15), set_auto_wrap_policy: NO_WRAP wraps the root only; PyTorch FSDP "
        "documentation, auto_wrap_policy"
    )
    roles: ClassVar[tuple[Role, ...]] = ("accelerate",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """NO_WRAP with a strategy that shards parameters."""
        settings = subject.get("fsdp_config")
        policy, strategy = settings.get("fsdp_auto_wrap_policy"), settings.get("fsdp_sharding_strategy")
        if subject.get("distributed_type").string != "FSDP" or strategy.string in ("NO_SHARD", "3"):
            return
        if policy.string == "NO_WRAP":
            yield self.hit(
                policy,
                "with NO_WRAP the model is one FSDP unit: all its weights are gathered for every forward and "
                "backward "
                "pass, so each GPU needs room for the whole model and nothing overlaps",
                "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
            )
