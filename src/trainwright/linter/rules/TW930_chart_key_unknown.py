"""TW930: a Helm value that the chart does not have."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, ClassVar

from trainwright.facts.data import read_rows
from trainwright.linter.documents import ConfigDocument, KubernetesObject, Role
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit
from trainwright.linter.values import version_tuple


class ChartKeyUnknown(ConfigRule):
    """Helm ignores what it does not know; strict charts refuse it."""

    id = "TW930"
    severity = "warning"
    category = "charts"
    summary = "a Helm value matches no key of the chart"
    evidence = "verified"
    source = (
        "values.schema.yaml of zero-to-jupyterhub-k8s; values.yaml of the Slinky and Karpenter charts "
        "(facts/chart_keys.json)"
    )
    roles: ClassVar[tuple[Role, ...]] = ("helm-values",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Values of known charts: JupyterHub by its sections, others by the Application that holds them."""
        rows = read_rows("chart_keys")
        chart, version = self._chart(subject)
        if chart is None and subject.get("singleuser").type == "mapping":
            chart = "jupyterhub"
        if chart not in rows:
            return
        row = rows[chart]
        released = version_tuple(version or "")
        if "since" in row and released and released < version_tuple(row["since"]):
            return
        if chart != "jupyterhub" or self._chart(subject)[0] is not None:
            # A chart named by its path in a repository may be somebody's own chart of that name.
            yield from self._unknown(subject.node, chart, row, loose=not released)
        if chart == "jupyterhub":
            for name in (key for key in rows if key.startswith(f"{chart}:")):
                yield from self._unknown(subject.get(*name.partition(":")[2].split(".")), name, rows[name])

    def _chart(self, subject: ConfigDocument) -> tuple[str | None, str | None]:
        """Chart and version from the Argo CD Application that holds the values."""
        holder = subject.holder
        if not isinstance(holder, KubernetesObject):
            return None, None
        sources = [holder.get("spec", "source"), *holder.get("spec", "sources").elements()]
        charts = [source for source in sources if source.get("helm").exists]
        if len(charts) != 1:
            return None, None
        name = charts[0].get("chart").string or (charts[0].get("path").string or "").rstrip("/").rsplit("/", 1)[-1]
        return name, charts[0].get("targetRevision").string

    def _unknown(self, node: Node, chart: str, row: dict[str, Any], loose: bool = False) -> Iterator[Hit]:
        if node.open or node.unknown:
            return
        keys, instead = row["keys"], row.get("instead", {})
        for key, _ in node.pairs():
            if key.raw in keys or key.unknown or not key.raw:
                continue
            close = get_close_matches(key.raw, keys, 1, 0.8)
            right = instead.get(key.raw) or (close[0] if close else None)
            strict = bool(row.get("strict"))
            yield self.hit(
                key,
                f"the chart {chart.replace(':', ', section ')} has no key {key.raw!r}: "
                + (
                    "helm refuses the values"
                    if strict
                    else "Helm ignores it without a word, and what it should set stays at its default"
                ),
                right or f"one of {', '.join(keys[:12])}, …",
                "error" if strict and right is not None else "note" if loose else "warning",
            )
