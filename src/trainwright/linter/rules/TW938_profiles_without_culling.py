"""TW938: notebooks with accelerators that nobody stops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument, Document, PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.text import Span
from trainwright.linter.view.profiles import profiles

_CULLS = re.compile(r"cull|idle|shutdown_no_activity|max_age|MappingKernelManager", re.I)


class ProfilesWithoutCulling(ProjectRule):
    """A bare hub stops no idle server; the chart does after an hour."""

    id = "TW938"
    severity = "note"
    category = "charts"
    summary = "idle notebooks keep their accelerators"
    evidence = "verified"
    source = (
        "zero-to-jupyterhub-k8s 4.4.0 values.yaml: cull.enabled true, timeout 3600; JupyterHub itself culls nothing"
    )

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """The first accelerated profile of each hub that culls nothing."""
        seen: set[int] = set()
        for profile in profiles(project):
            document = profile.document
            if not profile.accelerators or id(document) in seen:
                continue
            seen.add(id(document))
            if isinstance(document, ConfigDocument) and document.get("cull", "enabled").boolean is False:
                yield self._hit(profile.span, "cull.enabled is false", "cull: {enabled: true, timeout: 3600}")
            elif _bare(document):
                yield self._hit(
                    profile.span,
                    "this configuration has no service that culls idle servers",
                    "jupyterhub-idle-culler as a service with --timeout=3600",
                )

    def _hit(self, span: Span, what: str, instead: str) -> Hit:
        return self.hit(
            span,
            f"{what}: a notebook that somebody left open keeps its accelerators and its node over weekends",
            instead,
        )


def _bare(document: Document) -> bool:
    """Whether it is a hub's whole configuration, not a piece of a chart's values, and culls nothing."""
    if not isinstance(document, PythonDocument) or isinstance(document.holder, ConfigDocument):
        return False
    return _CULLS.search(document.text.content) is None
