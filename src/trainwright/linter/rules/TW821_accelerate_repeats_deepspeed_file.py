"""TW821: with deepspeed_config_file, Accelerate's own DeepSpeed settings are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit

_SETTINGS = (
    "gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device",
    "offload_param_device", "zero3_save_16bit_model",
)  # fmt: skip


class AccelerateRepeatsDeepspeedFile(ConfigRule):
    """Settings live in one of the two files."""

    id = "TW821"
    severity = "error"
    category = "frameworks"
    summary = "an Accelerate file repeats settings that belong into the DeepSpeed file it names"
    evidence = "verified"
    source = (
        'accelerate/utils/dataclasses.py, DeepSpeedPlugin (1.15): ValueError "When using '
        '`deepspeed_config_file`, the following accelerate config variables will be ignored"'
    )
    roles: ClassVar[tuple[Role, ...]] = ("accelerate",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Settings that are stated beside the file."""
        section = subject.get("deepspeed_config")
        named = section.get("deepspeed_config_file")
        if not named.exists or named.string in ("none", "None", ""):
            return
        nodes = [section.get(name) for name in _SETTINGS] + [subject.get("mixed_precision")]
        for node in nodes:
            if node.exists and not node.unknown and node.key is not None:
                yield self.hit(
                    node.key,
                    f"{node.key.raw} is set here although {named.string} is the DeepSpeed file: Accelerate stops "
                    f"with a "
                    f"ValueError, because it would be ignored",
                    f"remove it here and state it in {named.string}",
                )
