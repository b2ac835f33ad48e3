"""TW705: rayStartParams become words of a shell command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob

_TYPES = {"int": "number", "float": "number", "bool": "boolean"}


class RayStartParameters(JobRule):
    """Values are strings, and JSON needs quotes of its own."""

    id = "TW705"
    severity = "error"
    category = "operators"
    summary = "a Ray start parameter that ray start cannot read"
    evidence = "verified"
    source = (
        "KubeRay 1.6 ray-operator/controllers/ray/common/pod.go: parameters are joined into a shell "
        "command; KubeRay documentation of rayStartParams"
    )
    frontends: ClassVar[tuple[str, ...]] = ("RayJob", "RayCluster")

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Every parameter of every group."""
        spec = subject.get("spec") if subject.frontend == "RayCluster" else subject.get("spec", "rayClusterSpec")
        yield from self._gpus(subject)
        for group in (spec.get("headGroupSpec"), *spec.get("workerGroupSpecs").elements()):
            for key, value in group.get("rayStartParams").pairs():
                if value.type in ("int", "float", "bool"):
                    yield self.hit(
                        value,
                        f"{key.raw} is a {_TYPES[value.type]}, but rayStartParams holds strings: the API server "
                        f"refuses it",
                        f'{key.raw}: "{value.raw}"',
                        fix=[value.span.edit(f'"{value.raw}"')],
                    )
                elif key.raw == "resources" and value.string and not value.unknown:
                    yield from self._resources(value, value.string)
                elif key.raw.startswith("--"):
                    yield self.hit(
                        key,
                        f"{key.raw} begins with dashes: the operator adds its own, and Ray gets an option "
                        f"that it does not know",
                        key.raw.lstrip("-"),
                    )

    def _gpus(self, subject: TrainingJob) -> Iterator[Hit]:
        """``num-gpus`` against what the pods of a group get."""
        for group in subject.groups:
            told, held = group.entry.get("rayStartParams", "num-gpus"), group.accelerators.known
            number = int(told.string) if told.string is not None and told.string.isdecimal() else None
            if number and held and number != held and "gpu" in (group.accelerated[0].accelerator or ""):
                yield self.hit(
                    told,
                    f"Ray is told that each pod has {number} GPUs, and the pod gets {held}: "
                    + (
                        f"{held - number} of them are never used"
                        if number < held
                        else "workers are placed on GPUs that do not exist, and fail"
                    ),
                    "no num-gpus: the operator takes the number from the limits",
                    severity="warning" if number < held else None,
                )

    def _resources(self, node: Node, text: str) -> Iterator[Hit]:
        """JSON that must survive a shell."""
        try:
            words = shlex.split(text)
        except ValueError:
            words = []
        if len(words) == 1 and _is_json(words[0]):
            return
        inner = text.strip().strip("'\"").replace("\\", "")
        right = f"""'"{inner.replace('"', chr(92) + '"')}"'"""
        yield self.hit(
            node,
            f"the shell that starts Ray reads this as {' and '.join(words) or 'nothing'}, which is no JSON: ray "
            f"start "
            f"fails and the pod restarts for ever",
            f"JSON in quotes of its own: resources: {right}",
        )


def _is_json(text: str) -> bool:
    """Whether text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
