"""TW804: a DistributedSampler that shuffles the same way in every epoch."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, literal


class SamplerWithoutEpoch(PythonRule):
    """``set_epoch`` is what changes the order."""

    id = "TW804"
    severity = "warning"
    category = "frameworks"
    summary = "DistributedSampler without set_epoch repeats the same order every epoch"
    evidence = "verified"
    source = "torch.utils.data.distributed.DistributedSampler documentation (warning on set_epoch)"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Files that create a shuffling sampler and never call ``set_epoch``."""
        if any(calls_of(subject, ".set_epoch", ".set_epoch_state")):
            return
        for call in calls_of(
            subject,
            "torch.utils.data.distributed.DistributedSampler",
            "torch.utils.data.DistributedSampler",
            ".DistributedSampler",
            "DistributedSampler",
        ):
            if literal(call.argument(3, "shuffle")) is False or call.has_star():
                continue
            yield self.hit(
                call.span,
                "nothing in this file calls set_epoch, so the sampler shuffles with "
                "the same seed in every epoch: all epochs see one order",
                "sampler.set_epoch(epoch) at the start of every epoch",
            )
