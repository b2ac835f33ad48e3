"""TW936: Argo CD undoes what an autoscaler does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class SelfHealUndoesAutoscaling(ObjectRule):
    """The replicas in Git win."""

    id = "TW936"
    severity = "note"
    category = "charts"
    summary = "Argo CD heals and prunes objects that jobs and autoscalers change"
    evidence = "verified"
    source = "argo-cd v3.5 documentation: selfHeal, prune, ignoreDifferences, RespectIgnoreDifferences"
    kinds: ClassVar[tuple[str, ...]] = ("Application",)
    groups: ClassVar[tuple[str, ...]] = ("argoproj.io",)
    _words: ClassVar[tuple[str, ...]] = ("slurm", "slinky", "ray", "training", "jobs")

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Applications that hold clusters or jobs for training, by chart, path or namespace."""
        spec = subject.get("spec")
        heal, prune = (spec.get("syncPolicy", "automated", name) for name in ("selfHeal", "prune"))
        source = spec.get("source")
        names = [
            source.get("chart").raw,
            source.get("path").raw.rsplit("/", 1)[-1],
            spec.get("destination", "namespace").raw,
        ]
        words = {word for name in names for word in name.lower().replace("_", "-").split("-")}
        if spec.open or not words & set(self._words) or spec.get("ignoreDifferences").exists:
            return
        where = heal if heal.boolean else prune if prune.boolean else None
        if where is not None:
            yield self.hit(
                where,
                (
                    "selfHeal sets replicas back to what Git says whenever an autoscaler or an operator changes them"
                    if heal.boolean
                    else "prune deletes"
                )
                + (", and prune deletes" if heal.boolean and prune.boolean else "")
                + (" running jobs when their file is renamed" if prune.boolean else ""),
                "ignoreDifferences for /spec/replicas with RespectIgnoreDifferences=true, and the annotation "
                "argocd.argoproj.io/sync-options: Prune=false on jobs",
            )
