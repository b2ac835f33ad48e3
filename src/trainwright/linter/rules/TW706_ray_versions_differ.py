"""TW706: a worker of another version does not join."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob

_TAG = re.compile(r"/?ray(?:-ml|-llm)?:(?P<ray>\d+\.\d+\.\d+)(?:\.\w{6})?(?:-(?P<python>py3\d+))?")

_PIN = re.compile(r"(?m)^\s*-\s*[\"']?ray(?:\[[^\]\n]{0,80}\])?\s*==\s*(\d+\.\d+\.\d+)")


class RayVersionsDiffer(JobRule):
    """Ray compares versions when a node joins."""

    id = "TW706"
    severity = "error"
    category = "operators"
    summary = "head, workers and rayVersion are of different Ray or Python versions"
    evidence = "verified"
    source = (
        "Ray documentation: all nodes and clients must use the same Ray and Python versions; "
        "ray/_private/utils.py, check_version_info raises on a mismatch"
    )
    frontends: ClassVar[tuple[str, ...]] = ("RayJob", "RayCluster")

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """The first image that differs from the head's."""
        found = list(_versions(subject))
        if not found:
            return
        first_place, first = found[0]
        for place, version in found[1:]:
            for part, what in ((0, "Ray"), (1, "Python")):
                if version[part] and first[part] and version[part] != first[part]:
                    yield self.hit(
                        place,
                        f"this image has {what} {version[part]}, {first_place.string} has {what} {first[part]}: the "
                        f"worker "
                        f"stops with a version mismatch when it joins, again and again",
                        f"the same image everywhere: {first_place.string}",
                    )
                    break
        pinned = subject.get("spec", "runtimeEnvYAML")
        other = _PIN.search(pinned.string or "")
        if other is not None and first[0] and other[1] != first[0]:
            yield self.hit(
                pinned,
                f"the runtime environment installs Ray {other[1]} into a cluster of Ray {first[0]}: the job's "
                "workers talk another protocol than the cluster, and stop when they connect",
                "no ray among the packages: the image brings it",
                severity="warning",
            )
        stated = subject.get("spec", "rayVersion")
        if subject.frontend == "RayJob":
            stated = subject.get("spec", "rayClusterSpec", "rayVersion")
        if stated.string and first[0] and stated.string != first[0]:
            same = stated.string.split(".")[:2] == first[0].split(".")[:2]
            yield self.hit(
                stated,
                f"rayVersion is {stated.string}, but the head's image has Ray {first[0]}: the operator configures "
                f"the cluster "
                f"for a version that does not run",
                f'rayVersion: "{first[0]}"',
                severity="note" if same else "warning",
            )


def _versions(job: TrainingJob) -> Iterator[tuple[Node, tuple[str, str]]]:
    """Images with Ray's and Python's version by their tags, head first."""
    for group in sorted(job.groups, key=lambda g: g.role != "head"):
        for container in group.main_containers[:1]:
            match = _TAG.search(container.image.string or "")
            if match and not container.image.unknown:
                python = match["python"] or ""
                yield container.image, (match["ray"], f"{python[2]}.{python[3:]}" if python else "")
