"""TW935: a notebook image that is no longer updated."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.view.profiles import profiles


class ProfileImageFrozen(ProjectRule):
    """Jupyter images moved to quay.io."""

    id = "TW935"
    severity = "warning"
    category = "charts"
    summary = "a JupyterHub profile uses an image that is frozen on Docker Hub, or has no GPU software"
    evidence = "verified"
    source = "jupyter/docker-stacks README: images are published to quay.io only since 2023-10-20"

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """Images of all profiles."""
        for profile in profiles(project):
            entry = profile.overrides.get("image")
            image = entry.value if entry is not None else None
            if entry is None or not isinstance(image, str):
                continue
            name = image.removeprefix("docker.io/")
            if name.startswith("jupyter/"):
                gpu = " and has no CUDA, so the GPU of this profile stays idle" if profile.accelerators else ""
                yield self.hit(
                    entry.span,
                    f"{image} on Docker Hub is frozen since October 2023{gpu}",
                    f"quay.io/{name.partition(':')[0]} with a dated tag"
                    + (" (a cuda12 variant)" if profile.accelerators else ""),
                )
