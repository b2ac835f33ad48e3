"""TW824: a misspelled or retired key of zero_optimization."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import ClassVar

from trainwright.errors import did_you_mean
from trainwright.facts.data import read_rows
from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit


class DeepspeedKey(ConfigRule):
    """DeepSpeed validates the section and refuses extra keys."""

    id = "TW824"
    severity = "error"
    category = "frameworks"
    summary = "a key that DeepSpeed's ZeRO section does not have"
    evidence = "verified"
    source = (
        "deepspeed/runtime/zero/config.py and offload_config.py (0.19); "
        "deepspeed/runtime/config_utils.py: extra keys are forbidden"
    )
    roles: ClassVar[tuple[Role, ...]] = ("deepspeed",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Unknown and retired keys."""
        yield from self._top_level(subject)
        section = subject.get("zero_optimization")
        for table in ("zero_optimization", "offload_param", "offload_optimizer"):
            path = () if table == "zero_optimization" else (table,)
            known = read_rows("deepspeed_keys")[table]
            for key, _ in section.get(*path).pairs():
                name = key.raw
                if name in known["retired"]:
                    yield self.hit(key, f"{name} is a retired key of {table}; DeepSpeed still reads it",
                                   known["retired"][name], severity="note")  # fmt: skip
                elif name not in known["keys"] and not key.unknown:
                    near = did_you_mean(name, known["keys"])
                    similar = near if near.startswith("did you mean") else ""
                    yield self.hit(
                        key,
                        f"{table} has no key {name}: DeepSpeed's validation refuses it at start",
                        similar or f"one of DeepSpeed's keys of {table}",
                        severity=None if similar else "warning",
                    )

    def _top_level(self, subject: ConfigDocument) -> Iterator[Hit]:
        """Misspelt keys of the file itself, which DeepSpeed does not read and does not refuse."""
        rows = read_rows("deepspeed_keys")["top_level"]
        known = [*rows["passed_on"], *rows["refused"]]
        for key, _ in subject.node.pairs():
            near = difflib.get_close_matches(key.raw, known, 1, 0.9)
            if near and key.raw not in known and not key.unknown:
                yield self.hit(
                    key,
                    f"DeepSpeed has no key {key.raw} and says nothing about keys that it does not know: what "
                    f"it should "
                    "set stays at its default",
                    f"did you mean {near[0]}?",
                    severity="warning",
                )
