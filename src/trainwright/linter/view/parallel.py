"""Parallel degrees of a training program, as Megatron-LM, Megatron-DeepSpeed, NeMo and torchtitan name them.

Takes one launch; gives its degrees, its model's shape and its batch sizes. It must not know what fits together.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.linter.shell.flags import Flags
from trainwright.linter.values import Absent, Known, Value
from trainwright.linter.view.job import JobLaunch

_PREFIXES = ("", "model.", "trainer.strategy.", "parallelism.")


@dataclass(frozen=True)
class Degrees:
    """What the options say. Absent degrees are one. ``megatron`` tells whether the program checks them as Megatron-LM
    does; torchtitan states its own ``data_parallel_*`` degrees."""

    flags: Flags
    world: Value[int]
    tensor: Value[int]
    pipeline: Value[int]
    context: Value[int]
    expert: Value[int]
    expert_tensor: Value[int]

    @property
    def megatron(self) -> bool:
        """Whether the options are Megatron-LM's own."""
        return self.flags.has("tensor_model_parallel_size", "pipeline_model_parallel_size",
                              "expert_model_parallel_size")  # fmt: skip

    @property
    def model_parallel(self) -> int | None:
        """tensor × pipeline × context; None when one of them is not known."""
        product = 1
        for value in (self.tensor, self.pipeline, self.context):
            one = count(value)
            if one is None:
                return None
            product *= one
        return product

    @property
    def data_parallel(self) -> int | None:
        """World size divided by the model-parallel size; None when it is not known or does not divide."""
        product, world = self.model_parallel, self.world.known
        if not product or not world or world % product:
            return None
        return world // product

    def stated(self) -> str:
        """The degrees that are written, for messages: ``tensor 4 × pipeline 2``."""
        named = (("tensor", self.tensor), ("pipeline", self.pipeline), ("context", self.context))
        return " × ".join(f"{name} {value.known}" for name, value in named if (value.known or 1) > 1) or "1"


def count(value: Value[int]) -> int | None:
    """A degree as a positive number: 1 when it is not written, None when it is not known."""
    if isinstance(value, Absent):
        return 1
    return value.known if isinstance(value, Known) and value.value > 0 else None


def degrees(launch: JobLaunch) -> Degrees:
    """The degrees of one launch."""
    flags = launch.arguments

    def stated(*names: str) -> Value[int]:
        return flags.number(*(prefix + name for name in names for prefix in _PREFIXES))

    return Degrees(
        flags,
        launch.world_size,
        stated("tensor_model_parallel_size", "tensor_parallel_degree"),
        stated("pipeline_model_parallel_size", "pipeline_parallel_degree"),
        stated("context_parallel_size", "context_parallel_degree"),
        stated("expert_model_parallel_size", "expert_parallel_degree"),
        stated("expert_tensor_parallel_size", "expert_tensor_parallel_degree"),
    )
