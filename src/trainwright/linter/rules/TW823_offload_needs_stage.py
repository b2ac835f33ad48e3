"""TW823: offloading is a feature of some stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit


class OffloadNeedsStage(ConfigRule):
    """Parameters can only be offloaded where they are sharded."""

    id = "TW823"
    severity = "warning"
    category = "frameworks"
    summary = "ZeRO offload with a stage that does not have it"
    evidence = "verified"
    source = (
        "deepspeed/runtime/zero/config.py (0.19): offload_param is valid with stage 3 only, "
        "offload_optimizer with stages 1 to 3"
    )
    roles: ClassVar[tuple[Role, ...]] = ("deepspeed", "accelerate")

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Offload sections that the stage does not read."""
        if subject.role == "deepspeed":
            section = subject.get("zero_optimization")
            stage, param = section.get("stage"), section.get("offload_param", "device")
            optimizer = section.get("offload_optimizer", "device")
        else:
            section = subject.get("deepspeed_config")
            stage, param = section.get("zero_stage"), section.get("offload_param_device")
            optimizer = section.get("offload_optimizer_device")
        number = stage.integer
        if number is None:
            return
        if number < 3 and param.string in ("cpu", "nvme"):
            yield self.hit(param, f"parameters can only be offloaded with ZeRO stage 3; with stage {number} this is "
                f"ignored "
                           f"and they stay on the GPU", "stage 3, or no parameter offload")  # fmt: skip
        if number < 1 and optimizer.string in ("cpu", "nvme"):
            yield self.hit(optimizer, "the optimizer can only be offloaded with ZeRO stage 1 to 3; without ZeRO "
                "this is "
                           "ignored", "stage 2, or no optimizer offload")  # fmt: skip
