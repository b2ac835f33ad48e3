"""TW814: tensor × pipeline × context must divide the world size."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.parallel import degrees


class DegreesDoNotDivideWorld(LaunchRule):
    """Every data-parallel copy of the model needs the same number of processes."""

    id = "TW814"
    severity = "error"
    category = "frameworks"
    summary = "the parallel degrees do not divide the number of processes"
    evidence = "verified"
    source = (
        "NVIDIA/Megatron-LM, validate_args: world_size % (tensor × pipeline × context) == 0; "
        "pytorch/torchtitan, ParallelDims._validate"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Worlds that the product does not divide."""
        found = degrees(subject)
        product, world = found.model_parallel, found.world.known
        if not product or product == 1 or not world or (world % product == 0):
            return
        place = next(v for v in (found.tensor, found.pipeline, found.context) if (v.known or 1) > 1)
        yield self.hit(
            place,
            f"{found.stated()} needs {product} processes for one copy of the model, but {world} are started"
            + (f", which leaves {world % product} over" if world > product else "")
            + ": the program stops with an assertion on every rank",
            f"degrees whose product divides {world}, or a multiple of {product} processes",
            # A script that is started once per node by hand often says one node, to be changed by who uses it.
            severity="warning"
            if subject.job.frontend == "shell" and product % world == 0 and not subject.flags.has("standalone")
            else None,
        )
