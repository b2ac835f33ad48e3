"""TW851: an optimizer steps in a loop, and its gradients are never set to zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.loops import innermost_loop
from trainwright.linter.view.python import Call, calls, calls_of, imports_module, nodes

_ENGINES = ("deepspeed", "colossalai", "lightning", "pytorch_lightning", "megatron", "torch_xla", "fairscale")


class GradientsNeverZeroed(PythonRule):
    """``backward`` adds to what is there."""

    id = "TW851"
    severity = "error"
    category = "frameworks"
    summary = "a training loop that never sets its gradients to zero"
    evidence = "verified"
    source = "PyTorch documentation, torch.autograd: backward accumulates gradients in the leaves; reproduced"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Files with an optimizer of torch whose step and backward share a loop."""
        if not imports_module(subject, "torch") or any(imports_module(subject, name) for name in _ENGINES):
            return
        if "zero_grad" in subject.text.content or _clears_by_hand(subject):
            return
        optimizers = set(_optimizers(subject))
        for call in calls_of(subject, ".step"):
            target = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
            stepped = ast.unparse(target) if target is not None else ""
            loop = innermost_loop(subject, call.node)
            if stepped not in optimizers or loop is None or call.node.args or call.node.keywords:
                continue
            if any(_within(other, loop) for other in calls_of(subject, ".backward")):
                yield self.hit(
                    call.span,
                    "backward adds to the gradients that are there, and nothing in this file sets them to zero: "
                    "every step uses the sum of all steps before it, and the loss diverges or stands still",
                    f"{stepped}.zero_grad() after the step",
                )
                return


def _optimizers(document: PythonDocument) -> Iterator[str]:
    """Names that an optimizer of torch.optim is assigned to."""
    made = {id(call.node) for call in calls(document) if call.name.startswith("torch.optim.") and _is_class(call)}
    for node in nodes(document):
        if isinstance(node, ast.Assign) and id(node.value) in made and "LBFGS" not in ast.unparse(node.value):
            yield from (ast.unparse(target) for target in node.targets)


def _is_class(call: Call) -> bool:
    parts = call.name.split(".")
    return len(parts) == 3 and parts[-1][:1].isupper()


def _within(call: Call, loop: ast.AST) -> bool:
    return any(node is call.node for node in ast.walk(loop))


def _clears_by_hand(document: PythonDocument) -> bool:
    """Whether anything assigns to a ``.grad`` or zeroes one."""
    return any(isinstance(node, ast.Attribute) and node.attr in ("grad", "main_grad") for node in nodes(document))
