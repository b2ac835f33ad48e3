"""TW835: the other ranks never join."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.loops import one_rank_only
from trainwright.linter.view.python import Call, calls, calls_of, imports_module, nodes

_COLLECTIVES = (
    "torch.distributed.all_reduce", "torch.distributed.all_gather", "torch.distributed.all_gather_object",
    "torch.distributed.gather_object", "torch.distributed.all_gather_into_tensor", "torch.distributed.reduce",
    "torch.distributed.reduce_scatter", "torch.distributed.broadcast_object_list",
    "torch.distributed.checkpoint.save", "torch.distributed.checkpoint.async_save",
    "torch.distributed.checkpoint.load",
    "torch.distributed.checkpoint.state_dict.get_model_state_dict",
    "torch.distributed.checkpoint.state_dict.get_state_dict",
    "torch.distributed.checkpoint.state_dict.get_optimizer_state_dict",
    "torch.distributed.barrier", "torch.distributed.monitored_barrier", "torch.distributed.broadcast",
    "torch.distributed.scatter", "torch.distributed.gather", "torch.distributed.all_to_all_single",
    ".full_tensor", ".save_checkpoint_sharded", "ray.train.report", ".wait_for_everyone",
)  # fmt: skip


class CollectiveOnOneRank(PythonRule):
    """A collective waits for every rank."""

    id = "TW835"
    severity = "warning"
    category = "frameworks"
    summary = "a collective that only one rank reaches"
    evidence = "reproduced"
    source = (
        "torch.distributed documentation: every process of the group must take part; reproduced with "
        "full_tensor under rank 0 (gloo timeout)"
    )

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Calls of that kind behind a question for one rank."""
        if not any(imports_module(subject, module) for module in ("torch", "ray", "deepspeed", "accelerate")):
            return
        engines = set(_engines(subject))
        for call in calls(subject):
            if not (_is_collective(call.name) or _saves_with_engine(call, engines)):
                continue
            guard = one_rank_only(subject, call.node)
            if guard is None or call.keyword("group") is not None:
                continue
            yield self.hit(
                call.span,
                f"{call.name.rsplit('.', 1)[-1]} waits for every rank, but only one rank gets here (line "
                f"{guard.lineno}): it "
                f"hangs until the timeout, holding all GPUs",
                "call it on every rank, and keep only printing and writing behind the question for the rank",
            )


def _is_collective(name: str) -> bool:
    return name in _COLLECTIVES or any(own.startswith(".") and name.endswith(own) for own in _COLLECTIVES)


def _engines(document: PythonDocument) -> Iterator[str]:
    """Names that hold a DeepSpeed engine: its save_checkpoint is a collective."""
    made = {id(call.node) for call in calls_of(document, "deepspeed.initialize")}
    for node in nodes(document):
        if isinstance(node, ast.Assign) and id(node.value) in made:
            for target in node.targets:
                first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
                yield ast.unparse(first)


def _saves_with_engine(call: Call, engines: set[str]) -> bool:
    function = call.node.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ("save_checkpoint", "load_checkpoint")
        and ast.unparse(function.value) in engines
    )
