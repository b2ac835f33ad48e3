"""TW923: an AWS Deep Learning Container that gets no patches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods

_IMAGE = re.compile(r"\.dkr\.ecr[.-].*/(pytorch|tensorflow)-(?:training|inference)(?:-arm64)?:(\d+\.\d+)")


class ImagePastSupport(PodRule):
    """Each framework version is patched for a year."""

    id = "TW923"
    severity = "note"
    category = "security"
    summary = "an AWS Deep Learning Container whose patches have ended"
    evidence = "verified"
    source = "aws/deep-learning-containers, support policy (facts/deep_learning_containers.json)"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Versions in the tags of AWS's images."""
        seen: set[str] = set()
        for container in subject.group.containers:
            image = container.image.string or ""
            found = _IMAGE.search(image)
            row = read_rows("deep_learning_containers").get(f"{found[1]}:{found[2]}") if found else None
            if found is None or row is None or image in seen:
                continue
            seen.add(image)
            yield self.hit(
                container.image,
                f"AWS has patched {found[1]} {found[2]} images until {row['ended']}: since then known holes in the "
                "system, CUDA, NCCL and the EFA plugin stay open, and newer drivers are not tested with them",
                "a version that is still patched, or an image of your own",
            )
