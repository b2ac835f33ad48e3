"""TW801: fp16 and bf16 both switched on in a DeepSpeed file."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit


class TwoHalfPrecisions(ConfigRule):
    """DeepSpeed trains in one of them."""

    id = "TW801"
    severity = "error"
    category = "frameworks"
    summary = "fp16 and bf16 are both enabled"
    evidence = "verified"
    source = "deepspeed/runtime/config.py, assertion in DeepSpeedConfig (0.19.5)"
    roles = ("deepspeed",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Both sections with ``enabled: true``."""
        fp16 = subject.get("fp16", "enabled")
        bf16 = subject.get("bf16", "enabled") if subject.get("bf16").exists else subject.get("bfloat16", "enabled")
        if fp16.boolean and bf16.boolean:
            later = max(fp16, bf16, key=lambda node: node.start)
            yield self.hit(
                later,
                "fp16 and bf16 are both enabled: DeepSpeed stops at start with an assertion",
                "enable one: bf16 on Ampere and newer, fp16 on V100 and T4",
            )
