"""TW861: low_cpu_mem_usage with ZeRO-3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.trainer import TrainerArguments


class LowMemoryLoadingWithZero3(TrainerRule):
    """Both place the weights while they are loaded."""

    id = "TW861"
    severity = "error"
    category = "frameworks"
    summary = "low_cpu_mem_usage with ZeRO-3"
    evidence = "reported"
    source = (
        "transformers 4, PreTrainedModel.from_pretrained: DeepSpeed Zero-3 is not compatible with "
        "low_cpu_mem_usage=True "
        "or with passing a device_map; transformers 5 ignores the option"
    )
    until: ClassVar[dict[str, str]] = {"transformers": "5.0"}

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """The option beside stage 3."""
        stage, asked = subject.zero_stage, subject.switch("low_cpu_mem_usage", "model_args.low_cpu_mem_usage")
        if stage is not None and stage.value == 3 and isinstance(asked, Known) and asked.value:
            yield self.hit(
                asked,
                "ZeRO-3 shards the weights while they are loaded, and low_cpu_mem_usage loads them onto the "
                "meta device: "
                "from_pretrained of transformers 4 refuses the combination (ValueError) on every rank",
                "no --low_cpu_mem_usage: ZeRO-3 holds one rank's share in memory anyway",
            )
