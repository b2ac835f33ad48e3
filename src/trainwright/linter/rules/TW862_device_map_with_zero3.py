"""TW862: a program that places the model itself and hands it to ZeRO-3."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument, PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls, calls_of, literal

_STAGE_3 = re.compile(r"(zero|stage|z)[-_]?3", re.IGNORECASE)


class DeviceMapWithZero3(PythonRule):
    """``from_pretrained`` asks whether ZeRO-3 is on, once TrainingArguments exist."""

    id = "TW862"
    severity = "error"
    category = "frameworks"
    summary = "from_pretrained with device_map in a program that trains with DeepSpeed"
    evidence = "verified"
    source = (
        "transformers/integrations/accelerate.py (5.24), check_and_set_device_map: DeepSpeed Zero-3 is not "
        "compatible with passing a device_map; 4.x modeling_utils.py says the same of low_cpu_mem_usage=True"
    )

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Models loaded with a device map after arguments that name a DeepSpeed configuration."""
        arguments = [(c, c.keyword("deepspeed")) for c in calls(subject) if c.name.endswith(("Arguments", "Config"))]
        configured = next(((c, v) for c, v in arguments if v is not None and _is_given(v)), None)
        if configured is None:
            return
        sharded = _stage_3(configured[1], subject, project)
        for call in calls_of(subject, ".from_pretrained"):
            value = call.keyword("device_map")
            if value is None or not _places(value) or call.node.lineno < configured[0].node.lineno:
                continue
            yield self.hit(
                subject.span(value),
                "each process places the whole model by this device_map, and DeepSpeed is to place it as well: "
                "with ZeRO-3 from_pretrained stops with a ValueError on every rank, with other stages the copies "
                "fill the same GPUs",
                "no device_map: the launcher gives each process its GPU",
                severity=None if sharded else "warning",
            )


def _is_given(value: ast.expr) -> bool:
    return isinstance(value, ast.Dict) or (isinstance(value, ast.Constant) and isinstance(value.value, str))


def _places(value: ast.expr) -> bool:
    return literal(value) in ("auto", "balanced", "balanced_low_0", "sequential", "cuda")


def _stage_3(value: ast.expr, subject: PythonDocument, project: Project) -> bool:
    """Whether the configuration is of stage 3: the dictionary, the file when it is in sight, else its name."""
    if isinstance(value, ast.Dict):
        return bool(re.search(r"'stage': 3\b", ast.unparse(value)))
    name = str(literal(value))
    found = project.file(name, subject)
    if isinstance(found, ConfigDocument):
        return found.get("zero_optimization", "stage").integer == 3
    return bool(_STAGE_3.search(name))
