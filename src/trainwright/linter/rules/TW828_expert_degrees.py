"""TW828: experts have a process grid of their own."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.values import Absent
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.parallel import count, degrees


class ExpertDegrees(LaunchRule):
    """expert tensor × expert × pipeline must divide the world size."""

    id = "TW828"
    severity = "error"
    category = "frameworks"
    summary = "the expert-parallel degrees do not fit the processes or the experts"
    evidence = "verified"
    source = (
        "NVIDIA/Megatron-LM, parallel_state.initialize_model_parallel: world_size % (expert tensor × "
        "expert × pipeline) == 0; NVIDIA-NeMo/Speech#14838"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Grids that do not fit."""
        found = degrees(subject)
        expert = count(found.expert)
        if not expert or expert == 1 or not found.megatron:
            return
        experts = subject.arguments.number("num_experts", "model.num_moe_experts")
        if experts.known and experts.known % expert:
            yield self.hit(
                found.expert,
                f"{experts.known} experts do not divide by expert-parallel size {expert}: Megatron-LM stops at start",
                f"an expert-parallel size that divides {experts.known}",
            )
        written = not isinstance(found.expert_tensor, Absent)
        tensor, pipeline, world = (
            count(found.expert_tensor if written else found.tensor),
            count(found.pipeline),
            found.world.known,
        )
        if not tensor or not pipeline or not world or world % (tensor * expert * pipeline) == 0:
            return
        need = tensor * expert * pipeline
        small = expert * pipeline
        yield self.hit(
            found.expert,
            f"the experts need expert tensor "
            f"{tensor}{'' if written else ' (the tensor-parallel size, since it is not given)'} "
            f"× expert {expert} × pipeline {pipeline} = {need} processes, but {world} are started: Megatron-LM stops "
            f"with an "
            f"assertion",
            "--expert-tensor-parallel-size 1"
            if not written and tensor > 1 and world % small == 0
            else f"degrees whose product divides {world}",
        )
