"""TW835: the other ranks never join."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.loops import one_rank_only
from trainwright.linter.view.python import calls_of, imports_module

_COLLECTIVES = (
    "torch.distributed.all_reduce", "torch.distributed.all_gather", "torch.distributed.all_gather_object",
    "torch.distributed.gather_object", "torch.distributed.all_gather_into_tensor", "torch.distributed.reduce",
    "torch.distributed.reduce_scatter", "torch.distributed.broadcast_object_list",
    "torch.distributed.checkpoint.save", "torch.distributed.checkpoint.async_save",
    "torch.distributed.checkpoint.load",
    "torch.distributed.checkpoint.state_dict.get_model_state_dict",
    "torch.distributed.checkpoint.state_dict.get_state_dict",
    "torch.distributed.checkpoint.state_dict.get_optimizer_state_dict",
    ".full_tensor", ".save_checkpoint_sharded", "ray.train.report",
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
        if not any(imports_module(subject, module) for module in ("torch", "ray")):
            return
        for call in calls_of(subject, *_COLLECTIVES):
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
