"""TW922: an image whose content changes under its name."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods


class ImageMayChange(PodRule):
    """latest today is not latest tomorrow."""

    id = "TW922"
    severity = "note"
    category = "security"
    summary = "a training image has no fixed version"
    evidence = "verified"
    source = (
        "Kubernetes documentation, images: latest, or no tag, is pulled anew; a retried or later pod may get another"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Images of accelerated containers."""
        several = (subject.group.count.known or 1) > 1 or subject.job.multi_node
        for container in subject.group.accelerated:
            image = container.image
            name = image.string
            # Image names are lower case: IMAGE_PLACEHOLDER is filled in later.
            if name is None or "@sha256:" in name or image.unknown or name != name.lower():
                continue
            tag = name.rsplit("/", 1)[-1].partition(":")[2]
            if tag in ("", "latest"):
                yield self.hit(
                    image,
                    f"{name} is whatever was pushed last: a retry"
                    + (
                        ", or a pod on another node, may run other code than the rest of the job"
                        if several
                        else " may run other code than the first attempt"
                    ),
                    "a version tag, or the digest (@sha256:…)",
                    "warning" if several else "note",
                )
