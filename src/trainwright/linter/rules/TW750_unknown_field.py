"""TW750: the API server refuses or drops it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from trainwright.errors import did_you_mean
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.finding import Severity
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.fields import Departure, departures, elsewhere

_IDENTITY = ("apiVersion", "kind")  # Harmless in pod templates, which are objects in some clients.
_YOUNG = ("slurm-operator", "trainer")  # Their fields still change with every release.
# Fields of other versions that rules of their own explain.
_OTHER_RULES: dict[str, tuple[str, ...]] = {
    "TrainJob": ("podSpecOverrides", "podTemplateOverrides", "runtimePatches"),
    "NodePool": ("expireAfter",),
    "ClusterQueue": ("cohort", "cohortName", "admissionChecks"),
    "MPIJob": ("cleanPodPolicy", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "suspend",
               "schedulingPolicy", "slotsPerWorker", "launcherCreationPolicy", "gpus", "processingUnits",
               "mainContainer", "sshAuthMountPath", "mpiImplementation", "processingResourceType"),
    "PyTorchJob": ("cleanPodPolicy", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "suspend",
                   "schedulingPolicy"),
    "TFJob": ("cleanPodPolicy", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "suspend"),
    "NodeSet": ("clusterRef", "nodeCount", "nodeTemplate", "autoscaling", "placement"),
    "Controller": ("controller", "database", "restApi", "sharedStorage", "compute"),
}  # fmt: skip


class UnknownField(ObjectRule):
    """Unknown fields are refused by strict clients and dropped by others."""

    id = "TW750"
    severity = "error"
    category = "operators"
    summary = "a field that this kind does not have"
    evidence = "verified"
    source = (
        "OpenAPI of Kubernetes and CRDs of the operators, derived into facts/fields.json; reproduced "
        "with strict field validation of an API server"
    )

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Fields that the tree does not have."""
        for departure in departures(subject):
            if departure.kind != "unknown" or departure.name in (*_IDENTITY, *_OTHER_RULES.get(subject.kind, ())):
                continue
            place = ".".join(departure.path) or "the object"
            known = list(departure.shape.fields)
            near = did_you_mean(departure.name, [*known, *_OTHER_RULES.get(subject.kind, ())])
            home = elsewhere(departure.tree, departure.name)
            where = f"{departure.tree.component} {departure.tree.version}"
            sure = departure.tree.component not in _YOUNG
            severity: Severity = "error" if sure else "warning"
            if near.startswith("did") and _is_near(departure.name, near):
                instead = near
            elif home and home[:-1] != departure.path:
                instead = f"it belongs to {'.'.join(home)}"
                severity = "error" if _is_core(departure) and departure.path[:1] == home[:1] else "warning"
            else:
                instead = f"one of {', '.join(known[:12])}{', …' if len(known) > 12 else ''}"
                severity = "warning" if sure else "note"
            yield self.hit(
                departure.node,
                f"{place} of a {subject.kind} ({where}) has no field {departure.name}: the API server refuses it, or "
                f"drops it "
                f"silently",
                instead,
                severity=severity,
            )


def _is_core(departure: Departure) -> bool:
    """Whether the field stands in a part that the Kubernetes API itself defines, which changes rarely."""
    path = departure.path
    return departure.tree.component == "kubernetes" or "containers" in path or path[-2:] == ("template", "spec")


def _is_near(name: str, clause: str) -> bool:
    """Whether the suggestion differs by a slip (a few characters or case), not by a word."""
    suggested = clause.removeprefix("did you mean ").rstrip("?")
    return difflib.SequenceMatcher(None, name.lower(), suggested.lower()).ratio() >= 0.85
