"""TW741: an image name that no runtime can parse."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods

_PLACEHOLDER = re.compile(r"[<>${}\[\]]|(?<![a-z])[A-Z][A-Z0-9_-]{2,}(?![a-z])|\byour\b|[Xx]{3}", re.ASCII)


class ImageIsNoReference(PodRule):
    """Repositories are lower case, without a scheme."""

    id = "TW741"
    severity = "error"
    category = "operators"
    summary = "an image name that is no valid reference"
    evidence = "verified"
    source = (
        "distribution/reference: path components match [a-z0-9]+([._-][a-z0-9]+)*; the kubelet reports "
        "InvalidImageName for anything else and never starts the pod"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Images as they are written; what looks like a placeholder is left alone."""
        document = subject.job.document
        if document.holder is not None or document.path.endswith((".md", ".mdx", ".rst")):
            return
        for container in subject.group.containers:
            image = None if container.image.unknown else container.image.string
            if image is None or (why := _wrong(image)) is None:
                continue
            yield self.hit(
                container.image,
                f"{image} is no image reference ({why[0]}): the pod stays in InvalidImageName and never starts",
                why[1],
            )


def _wrong(image: str) -> tuple[str, str] | None:
    """What is wrong with a name, and what would be right; None when nothing is, or when it is a placeholder."""
    text = image.strip()
    if text in ("...", "…"):
        return "it was left out", "<registry>/<name>:<version>"
    scheme, found, rest = text.partition("://")
    if found:
        return f"it begins with {scheme}://", rest
    if _PLACEHOLDER.search(text):
        return None
    path = text.split("@")[0].rpartition("/")[0].partition("/")[2]
    name = text.split("@")[0].rpartition("/")[2].partition(":")[0]
    repository = "/".join(part for part in (path, name) if part)
    if repository != repository.lower():
        return "repository names are lower case", text.replace(repository, repository.lower(), 1)
    return None
