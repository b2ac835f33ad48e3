"""TW834: bf16 needs no loss scaling."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.loops import name_of
from trainwright.linter.view.python import calls_of, literal

_AUTOCAST = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.amp.autocast_mode.autocast")
_SCALERS = ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler")


class ScalerWithBf16(PythonRule):
    """bf16 has the exponent range of fp32."""

    id = "TW834"
    severity = "warning"
    category = "frameworks"
    summary = "a GradScaler in a program that computes in bf16"
    evidence = "reproduced"
    source = (
        "PyTorch documentation of torch.amp: gradient scaling is for fp16; reproduced: bf16 gradients "
        "are unscaled with an extra check per step in PyTorch 2.14"
    )

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Both in one file, and no fp16."""
        kinds = {
            name_of(v) or str(literal(v))
            for c in calls_of(subject, *_AUTOCAST)
            if (v := c.keyword("dtype")) is not None
        }
        kinds |= {name_of(c.node.args[1]) for c in calls_of(subject, "torch.autocast") if len(c.node.args) > 1}
        if "bfloat16" not in kinds or kinds - {"bfloat16"}:
            return
        for call in calls_of(subject, *_SCALERS):
            if call.keyword("enabled") is None and not call.has_star():
                yield self.hit(
                    call.span,
                    "the program computes in bf16, which has the range of fp32: the scaler prevents nothing, adds a "
                    "wait for "
                    "the GPU to each step and may skip the first ones",
                    "no GradScaler: loss.backward() and optimizer.step()",
                )
