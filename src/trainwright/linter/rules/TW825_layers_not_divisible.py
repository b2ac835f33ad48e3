"""TW825: every pipeline stage gets the same number of layers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.parallel import count, degrees

_UNEVEN = re.compile(r"decoder_(first|last)_pipeline|pipeline_(model_parallel_)?layout|in_pipeline_split$|encoder_")


class LayersNotDivisible(LaunchRule):
    """Layers must be a multiple of stages, virtual ones included."""

    id = "TW825"
    severity = "error"
    category = "frameworks"
    summary = "the layers cannot be divided among the pipeline stages"
    evidence = "verified"
    source = (
        "NVIDIA/Megatron-LM, validate_args: num_layers % transformer_pipeline_model_parallel_size == 0; "
        "modelscope/ms-swift#5737; NVIDIA/Megatron-LM#1304"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Layers that leave a remainder."""
        found = degrees(subject)
        layers, stages = subject.arguments.number("num_layers", "model.num_layers"), count(found.pipeline)
        if (
            not layers.known
            or not stages
            or stages == 1
            or any(_UNEVEN.search(flag.name) for flag in subject.arguments)
        ):
            return
        total = layers.known
        if total % stages:
            fitting = [number for number in range(2, total + 1) if total % number == 0][:6]
            yield self.hit(
                layers,
                f"{total} layers do not divide by {stages} pipeline stages ({total % stages} left over): Megatron-LM "
                f"stops "
                f"with an assertion, and older versions drop the rest silently",
                f"a pipeline size that divides {total} ({', '.join(map(str, fitting))}), or uneven stages with "
                f"--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers",
            )
            return
        chunk = subject.arguments.number("num_layers_per_virtual_pipeline_stage")
        if chunk.known and (total // stages) % chunk.known:
            yield self.hit(
                chunk,
                f"each of {stages} stages holds {total // stages} layers, which do not divide into virtual stages of "
                f"{chunk.known}",
                f"a divisor of {total // stages}",
            )
