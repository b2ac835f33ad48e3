"""TW840: one Ray Train worker is one process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, literal

_USES_MORE = ("get_devices", "device_map", "tensor_parallel", "torchrun", "init_device_mesh", "subprocess", "vllm")


class RayWorkerHoldsGpus(PythonRule):
    """A worker trains on one GPU unless its code uses more."""

    id = "TW840"
    severity = "warning"
    category = "frameworks"
    summary = "each Ray Train worker reserves several GPUs and uses one"
    evidence = "reproduced"
    source = (
        "reproduced with Ray 2.60: a worker is one process and get_device returns one GPU; "
        "ray.train.ScalingConfig documentation"
    )

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Scaling configurations with several GPUs per worker."""
        source = subject.text.content
        if any(word in source for word in _USES_MORE):
            return
        for call in calls_of(
            subject, "ray.train.ScalingConfig", "ray.air.ScalingConfig", "ray.air.config.ScalingConfig"
        ):
            asked = call.keyword("resources_per_worker")
            for key, value in zip(asked.keys, asked.values, strict=True) if isinstance(asked, ast.Dict) else ():
                count = literal(value)
                if literal(key) == "GPU" and isinstance(count, int | float) and count > 1:
                    workers = literal(call.keyword("num_workers"))
                    total = (
                        f" ({workers} workers reserve {workers * count:g} GPUs and use {workers})"
                        if isinstance(workers, int)
                        else ""
                    )
                    yield self.hit(
                        subject.span(value),
                        f"each worker is one process and trains on one GPU, but reserves {count:g}{total}",
                        f"num_workers = number of "
                        f"GPUs{f' ({workers * count:g})' if isinstance(workers, int) else ''}, and no GPU "
                        f"in resources_per_worker",
                    )
