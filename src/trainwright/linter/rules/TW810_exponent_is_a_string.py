"""TW810: 2e-5 without a dot is a string in YAML 1.1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit

_EXPONENT = re.compile(r"([+-]?\d+)[eE]([+-]?\d{1,2})")


class ExponentIsAString(ConfigRule):
    """PyYAML reads ``2e-5`` as a string and ``2.0e-5`` as a number."""

    id = "TW810"
    severity = "error"
    category = "frameworks"
    summary = "a number with an exponent that YAML reads as text"
    evidence = "reproduced"
    source = (
        'PyYAML\'s float resolver wants a dot before the exponent; reproduced: AdamW(lr="2e-5") raises '
        "TypeError in PyTorch 2.15; EleutherAI/gpt-neox#171"
    )
    roles: ClassVar[tuple[Role, ...]] = ("training", "deepspeed", "accelerate", "fsdp")

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Plain scalars of that form."""
        if subject.json:
            return
        # Axolotl's schema makes numbers of such texts; OmegaConf (LLaMA-Factory, Hydra) reads them as numbers.
        lenient = (
            (subject.get("base_model").exists and subject.get("datasets").exists)
            or subject.get("finetuning_type").exists
            or subject.get("defaults").type == "sequence"
        )
        sections = (
            [subject.node]
            if subject.role == "deepspeed"
            else [subject.get("deepspeed"), subject.get("deepspeed_config")]
        )
        strict = {id(node) for section in sections if section.type == "mapping" for node in section.walk()}
        for node in subject.node.walk():
            match = _EXPONENT.fullmatch(node.raw) if node.type == "str" and node.plain else None
            if match is None or (lenient and id(node) not in strict):
                continue
            written = f"{match[1]}.0e{match[2]}" if "-" in match[2] else f"{float(node.raw):.0f}"
            yield self.hit(
                node,
                f"YAML reads {node.raw} as text, not as a number, because there is no dot before the exponent: what "
                f"needs "
                f"a number fails at start",
                written,
                severity=None if id(node) in strict else "warning",
                fix=[node.span.edit(written)],
            )
