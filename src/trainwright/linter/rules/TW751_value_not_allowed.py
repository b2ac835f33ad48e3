"""TW751: closed lists of words."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.errors import did_you_mean
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.fields import departures


class ValueNotAllowed(ObjectRule):
    """Some fields allow certain words only, in certain case."""

    id = "TW751"
    severity = "error"
    category = "operators"
    summary = "a value that this field does not allow"
    evidence = "verified"
    source = (
        "enumerations of the operators' CRDs and of the Kubernetes API (facts/fields.json); Kubernetes "
        "validates them on admission"
    )

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Words outside the list."""
        for departure in departures(subject):
            if departure.kind != "value" or (subject.kind == "NodePool" and departure.name == "consolidationPolicy"):
                continue
            written = departure.node.string or ""
            same = next((word for word in departure.shape.enum if word.lower() == written.lower()), None)
            near = same or did_you_mean(written, [word for word in departure.shape.enum if word])
            slip = same is not None or near.startswith("did you mean") or departure.tree.component == "kubernetes"
            yield self.hit(
                departure.node,
                f"{departure.name} of a {subject.kind} cannot be {written!r}: the API server refuses the object",
                near,
                # A word that resembles none may be one of a release that came later.
                severity=None if slip else "warning",
            )
