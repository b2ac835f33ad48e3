"""TW937: a JupyterHub profile whose pods no node pool takes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.view.machines import INSTANCE_LABEL, pool_requirement
from trainwright.linter.view.nodepools import decided_elsewhere, taints
from trainwright.linter.view.profiles import Profile, profiles, set_in_code


class ProfileNotPlaced(ProjectRule):
    """Profiles need tolerations like any other pod."""

    id = "TW937"
    severity = "warning"
    category = "charts"
    summary = "no node pool takes the pods of a JupyterHub profile"
    evidence = "verified"
    source = (
        "KubeSpawner 7.1.0: tolerations of a profile; EKS tolerates by itself only a taint whose key is a resource "
        "that the pod asks for"
    )

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """Profiles that choose an instance type which pools in sight offer only behind a taint, or not at all."""
        pools = [pool for pool in project.objects("NodePool") if not decided_elsewhere(pool)]
        if not pools or len(pools) != len(project.objects("NodePool")) or set_in_code(project, "tolerations"):
            return
        for profile in profiles(project):
            if profile.open or "tolerations" in profile.overrides or not profile.accelerators:
                continue
            selected = profile.value("node_selector")
            kind = selected.get(INSTANCE_LABEL) if isinstance(selected, dict) else None
            if not isinstance(kind, str):
                continue
            offering = [p for p in pools if kind in {v.value for v in pool_requirement(p, INSTANCE_LABEL) or []}]
            missing = [self._taint(taints(pool), profile) for pool in offering]
            if offering and all(missing):
                yield self.hit(
                    profile.overrides["node_selector"].span,
                    f"every NodePool here with {kind} has the taint {missing[0]}, which the profile does not "
                    "tolerate: the notebook stays Pending until the hub gives up",
                    f"tolerations in the profile for {missing[0].split('=')[0].split(':')[0]}",
                )
            elif not offering and all(pool_requirement(pool, INSTANCE_LABEL) for pool in pools):
                yield self.hit(
                    profile.overrides["node_selector"].span,
                    f"no NodePool here offers {kind}: the notebook stays Pending until the hub gives up, unless such "
                    "nodes come from elsewhere",
                    "an instance type of one of the pools, or a NodePool with this one",
                    severity="note",
                )

    def _taint(self, repelling: set[tuple[str, str, str]], profile: Profile) -> str:
        """The first taint that stands in the way; "" when none does."""
        for key, value, effect in sorted(repelling):
            if effect in ("NoSchedule", "NoExecute") and key not in profile.accelerators:
                return f"{key}{'=' + value if value else ''}:{effect}"
        return ""
