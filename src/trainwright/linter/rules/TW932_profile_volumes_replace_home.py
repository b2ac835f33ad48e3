"""TW932: a profile's list of volumes replaces the home folder."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.view.profiles import profiles


class ProfileVolumesReplaceHome(ProjectRule):
    """Lists replace, dictionaries merge."""

    id = "TW932"
    severity = "warning"
    category = "charts"
    summary = "a profile gives volumes as a list, which replaces the home folder's"
    evidence = "verified"
    source = "KubeSpawner 7.1.0 _apply_overrides: dictionaries are merged, lists replace"

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """volumes and volume_mounts of all profiles."""
        for profile in profiles(project):
            for name in ("volumes", "volume_mounts"):
                entry = profile.overrides.get(name)
                if entry is not None and isinstance(entry.value, list) and entry.value:
                    yield self.hit(
                        entry.span,
                        f"a list here replaces the spawner's own {name}, the user's home among them: what is "
                        "saved in "
                        "such a session is gone when it ends",
                        f"{name} as a dictionary: {{<any name>: {{name: …}}}}",
                    )
