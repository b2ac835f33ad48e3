"""TW836: a mask and is_causal exclude each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, literal


class MaskAndCausal(PythonRule):
    """PyTorch refuses both at once."""

    id = "TW836"
    severity = "error"
    category = "frameworks"
    summary = "scaled_dot_product_attention with a mask and is_causal"
    evidence = "reproduced"
    source = 'reproduced in PyTorch 2.14: RuntimeError "Explicit attn_mask should not be set when is_causal=True"'

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Calls with both."""
        for call in calls_of(
            subject, "torch.nn.functional.scaled_dot_product_attention", ".scaled_dot_product_attention"
        ):
            mask = call.argument(3, "attn_mask")
            if mask is None or isinstance(mask, ast.Constant) or literal(call.argument(5, "is_causal")) is not True:
                continue
            yield self.hit(
                call.span,
                "attn_mask and is_causal=True together raise a RuntimeError when the mask is given",
                "is_causal=attn_mask is None, or is_causal=True without a mask (which lets the flash kernel run)",
                severity=None if isinstance(mask, ast.Call) else "warning",
            )
