"""TW857: an Accelerate file has a section that its distributed_type does not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit

_SECTIONS = {"fsdp_config": "FSDP", "deepspeed_config": "DEEPSPEED", "megatron_lm_config": "MEGATRON_LM"}


class SettingsOfAnotherKind(ConfigRule):
    """``distributed_type`` decides which section is read."""

    id = "TW857"
    severity = "warning"
    category = "frameworks"
    summary = "an Accelerate section that distributed_type makes ignored"
    evidence = "verified"
    source = (
        "accelerate/commands/launch.py (1.15): use_fsdp, use_deepspeed and use_megatron_lm follow distributed_type"
    )
    roles: ClassVar[tuple[Role, ...]] = ("accelerate",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Filled sections beside plain data parallelism."""
        kind = subject.get("distributed_type")
        if kind.string not in ("MULTI_GPU", "NO"):
            return
        for name, wanted in _SECTIONS.items():
            section = subject.get(name)
            if section.type == "mapping" and len(section.pairs()) > 0:
                yield self.hit(
                    kind,
                    f"distributed_type {kind.raw} is plain data parallelism: {name} below is ignored, every "
                    f"GPU holds the "
                    "whole model, and a model that was meant to be sharded runs out of memory",
                    f"distributed_type: {wanted}, or no {name}",
                )
