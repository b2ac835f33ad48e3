"""TW803: only rank 0 loads the weights, and nobody sends them on."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit


class FsdpLoadWithoutSync(ConfigRule):
    """RAM-efficient loading needs the module states to be synchronised."""

    id = "TW803"
    severity = "error"
    category = "frameworks"
    summary = "FSDP loads on rank 0 only but does not synchronise module states"
    evidence = "verified"
    source = (
        'accelerate 1.15 utils/launch.py, prepare_multi_gpu_env: ValueError "set --fsdp_sync_module_states to True", '
        "whatever fsdp_version is"
    )
    roles = ("accelerate",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Both settings in ``fsdp_config``."""
        sync = subject.get("fsdp_config", "fsdp_sync_module_states")
        if subject.get("fsdp_config", "fsdp_cpu_ram_efficient_loading").boolean and sync.boolean is False:
            yield self.hit(
                sync,
                "fsdp_cpu_ram_efficient_loading loads the weights on rank 0 only and the other ranks need them from "
                "it: accelerate launch refuses to start (ValueError), with FSDP 2 too",
                "fsdp_sync_module_states: true",
                fix=[sync.span.edit("true")],
            )
