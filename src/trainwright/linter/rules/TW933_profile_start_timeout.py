"""TW933: the hub gives up before an accelerator node has booted."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.view.profiles import profiles, set_in_code


class ProfileStartTimeout(ProjectRule):
    """60 s by default in KubeSpawner, 300 s in the chart."""

    id = "TW933"
    severity = "warning"
    category = "charts"
    summary = "a profile with accelerators keeps a start timeout shorter than a node takes to boot"
    evidence = "verified"
    source = "KubeSpawner 7.1.0 start_timeout 60 s; zero-to-jupyterhub-k8s singleuser.startTimeout 300 s"

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """Accelerated profiles."""
        for profile in profiles(project):
            if not profile.accelerators or profile.open:
                continue
            given: object = profile.value("start_timeout")
            chart = isinstance(profile.document, ConfigDocument)
            if given is None and "start_timeout" in profile.overrides:
                continue
            if given is None and isinstance(profile.document, ConfigDocument):
                found = profile.document.get("singleuser", "startTimeout")
                if found.unknown or profile.document.get("singleuser").open:
                    continue
                given = found.integer
            if given is None and not chart and set_in_code(project, "start_timeout"):
                continue
            seconds = given if isinstance(given, int) else 300 if chart else 60
            if seconds < 600:
                yield self.hit(
                    profile.span,
                    f"the hub gives up after {seconds} s and deletes the pod, but a GPU node takes five to "
                    "ten minutes to "
                    "boot and pull the image: the spawn fails while the node is on its way, and the node is "
                    "paid for nothing",
                    "start_timeout: 1200",
                )
