"""TW939: an Argo CD Application of custom resources that may sync before their definitions exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.facts.data import read_rows
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_SKIPS = "SkipDryRunOnMissingResource=true"


class ApplicationBeforeItsDefinitions(ObjectRule):
    """One chart brings the kinds, another uses them."""

    id = "TW939"
    severity = "note"
    category = "charts"
    summary = "an Application whose kinds are installed by another chart, with nothing that orders the two"
    evidence = "verified"
    source = (
        "SlinkyProject/slurm-operator docs/installation.md: slurm-operator-crds, slurm-operator and slurm are three "
        "charts; Argo CD sync options SkipDryRunOnMissingResource"
    )
    kinds: ClassVar[tuple[str, ...]] = ("Application",)
    groups: ClassVar[tuple[str, ...]] = ("argoproj.io",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Applications of charts that need the definitions of others, alone and without the option."""
        chart = _chart(subject)
        row = read_rows("chart_order").get(chart.rsplit("/", 1)[-1]) if chart else None
        if row is None or any(option.string == _SKIPS for option in _options(subject)):
            return
        if subject.metadata.get("annotations", "argocd.argoproj.io/sync-wave").exists:
            return
        others = {(_chart(other) or "").rsplit("/", 1)[-1] for other in project.objects("Application")}
        if others & set(row["needs"]):
            return
        yield self.hit(
            subject.get("spec", "syncPolicy"),
            f"the chart {chart.rsplit('/', 1)[-1] if chart else ''} uses kinds that {' and '.join(row['needs'])} "
            'install: a sync before those fails with "no matches for kind", and nothing here orders them',
            "an Application for each of them with a lower sync wave, and SkipDryRunOnMissingResource=true in "
            "syncOptions",
        )


def _chart(subject: KubernetesObject) -> str | None:
    """The chart, or the folder in a repository, of the only source."""
    sources = [subject.get("spec", "source"), *subject.get("spec", "sources").elements()]
    named = [source for source in sources if source.get("chart").exists or source.get("path").exists]
    if len(named) != 1:
        return None
    return named[0].get("chart").string or (named[0].get("path").string or "").rstrip("/") or None


def _options(subject: KubernetesObject) -> list[Node]:
    return subject.get("spec", "syncPolicy", "syncOptions").elements()
