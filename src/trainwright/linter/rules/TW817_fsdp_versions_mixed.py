"""TW817: FSDP 2 has other settings than FSDP 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit

_DEFAULT = ("FULL_SHARD", "1", None)


class FsdpVersionsMixed(ConfigRule):
    """``fsdp_version`` decides which settings exist."""

    id = "TW817"
    severity = "error"
    category = "frameworks"
    summary = "settings of FSDP 1 and FSDP 2 in one file"
    evidence = "verified"
    source = "accelerate/utils/dataclasses.py, FullyShardedDataParallelPlugin.__post_init__ (1.15)"
    roles: ClassVar[tuple[Role, ...]] = ("accelerate",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Settings of the other version."""
        settings = subject.get("fsdp_config")
        version = settings.get("fsdp_version").integer
        if version == 2:
            prefetch = settings.get("fsdp_forward_prefetch")
            if prefetch.exists and prefetch.boolean:
                yield self.hit(prefetch, "FSDP 2 has no forward prefetch: Accelerate stops at start",
                               "no fsdp_forward_prefetch, or fsdp_version: 1")  # fmt: skip
            strategy = settings.get("fsdp_sharding_strategy")
            if (
                strategy.exists
                and not settings.get("fsdp_reshard_after_forward").exists
                and strategy.string not in _DEFAULT
            ):
                yield self.hit(
                    strategy,
                    f"FSDP 2 does not know sharding strategies: {strategy.string} is ignored and weights are "
                    f"resharded after "
                    f"each forward pass",
                    "fsdp_reshard_after_forward: false (as SHARD_GRAD_OP) or true (as FULL_SHARD)",
                    severity="warning",
                )
            for name in ("fsdp_use_orig_params", "fsdp_backward_prefetch", "fsdp_sync_module_states"):
                old = settings.get(name)
                if old.exists and not old.unknown and str(old.raw).upper() not in ("NO_PREFETCH", "NULL", "~", ""):
                    yield self.hit(
                        old,
                        f"{name} belongs to FSDP 1: with fsdp_version 2 nothing reads it, and what it was to bring "
                        "about does not happen",
                        f"no {name} (accelerate to-fsdp2 converts the file), or fsdp_version: 1",
                        severity="warning",
                    )
        elif version in (None, 1) and settings.get("fsdp_reshard_after_forward").boolean is not None and version == 1:
            reshard = settings.get("fsdp_reshard_after_forward")
            yield self.hit(
                reshard,
                "FSDP 1 wants the name of a sharding strategy here and Accelerate stops on a boolean",
                "fsdp_version: 2, or fsdp_reshard_after_forward: FULL_SHARD",
            )
