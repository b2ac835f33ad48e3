"""TW931: a profile sets something that KubeSpawner does not have."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.view.profiles import Entry, profiles

_SPAWNER = frozenset({"extra_config", "start_timeout", "http_timeout"})


_RESOURCES = ("extra_resource_limits", "extra_resource_guarantees")


def _words(value: object) -> Iterator[str]:
    """All keys of nested mappings."""
    for key, below in value.items() if isinstance(value, dict) else ():
        yield str(key)
        yield from _words(below)


class ProfileOverrideUnknown(ProjectRule):
    """Unknown names become attributes that nobody reads."""

    id = "TW931"
    severity = "warning"
    category = "charts"
    summary = "a JupyterHub profile overrides a setting that KubeSpawner does not have"
    evidence = "verified"
    source = "KubeSpawner 7.1.0: configurable traits; _apply_overrides sets any attribute"

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """Overrides of all profiles."""
        known = read_rows("chart_keys")["kubespawner"]["keys"]
        usual = {
            "resources": "extra_resource_limits",
            "gpu": "extra_resource_limits",
            "limits": "extra_resource_limits",
            "nodeSelector": "node_selector",
            "memory": "mem_limit",
            "cpu": "cpu_limit",
            "env": "environment",
        }
        for profile in profiles(project):
            for entry in profile.overrides.values():
                if entry.name in _RESOURCES:
                    yield from self._resources(entry)
                if entry.name in known or entry.name in _SPAWNER or entry.name.startswith("_"):
                    continue
                close = get_close_matches(entry.name, known, 1, 0.75)
                right = usual.get(entry.name) or (close[0] if close else None)
                lost = right in _RESOURCES and any("gpu" in word or "neuron" in word for word in _words(entry.value))
                yield self.hit(
                    entry.span,
                    f"KubeSpawner has no {entry.name}: the override is ignored without a word"
                    + (f", and profile {profile.display_name!r} starts without it" if profile.display_name else ""),
                    right or "a trait of KubeSpawner, or extra_pod_config and extra_container_config for the rest",
                    severity="error" if lost else None,
                )

    def _resources(self, entry: Entry) -> Iterator[Hit]:
        """Names of accelerators that no device plugin offers."""
        table = read_rows("resources")
        for name in entry.value if isinstance(entry.value, dict) else ():
            known = [key for key, row in table.items() if not row.get("instead")]
            near = next((key for key in known if str(name) != key and str(name).rstrip("s") == key), None)
            right = table.get(str(name), {}).get("instead") or near
            if right:
                yield self.hit(
                    entry.span,
                    f"{entry.name} asks for {name}, which no device plugin offers: the notebook stays Pending until "
                    "the start times out",
                    str(right),
                    severity="error",
                )
