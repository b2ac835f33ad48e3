"""TW832: clipping scaled gradients clips almost everything."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.loops import innermost_loop
from trainwright.linter.view.python import calls_of, literal

_SCALERS = ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler",
            "torch.amp.grad_scaler.GradScaler")  # fmt: skip
_CLIP = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", ".clip_grad_norm_", ".clip_grad_value_")


class ClipBeforeUnscale(PythonRule):
    """``clip_grad_norm_`` must see unscaled gradients."""

    id = "TW832"
    severity = "warning"
    category = "frameworks"
    summary = "gradients are clipped before the GradScaler unscales them"
    evidence = "verified"
    source = "PyTorch documentation, AMP examples: call scaler.unscale_(optimizer) before clipping"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Clipping in a file with an active scaler and no unscaling before it."""
        scalers = [c for c in calls_of(subject, *_SCALERS) if literal(c.keyword("enabled")) is not False]
        receivers = {call.name.rpartition(".")[0] for call in calls_of(subject, ".scale")}
        # A scaler that comes as an argument: it scales, and steps or updates.
        given = receivers & {call.name.rpartition(".")[0] for call in calls_of(subject, ".update")}
        if not receivers or not (scalers or any("scaler" in name.lower() for name in given)):
            return
        unscaled = [call.node.lineno for call in calls_of(subject, ".unscale_", ".unscale_gradients")]
        for call in calls_of(subject, *_CLIP):
            loop = innermost_loop(subject, call.node)
            first = loop.lineno if loop is not None else 0
            if any(first <= line <= call.node.lineno for line in unscaled) or call.name.startswith("accelerator."):
                continue
            if loop is None and unscaled:
                continue
            yield self.hit(
                call.span,
                "the gradients are still multiplied by the scaler's factor (65,536 at first), so this clips nearly "
                "every step "
                "to a tiny one",
                "scaler.unscale_(optimizer) before clipping, then scaler.step(optimizer) and scaler.update()",
            )
