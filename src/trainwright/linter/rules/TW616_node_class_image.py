"""TW616: the image of a node class is not chosen as Karpenter v1 asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class NodeClassImage(ObjectRule):
    """amiSelectorTerms is required; an alias stands alone; without one amiFamily says the family."""

    id = "TW616"
    severity = "error"
    category = "scheduling"
    summary = "an EC2NodeClass does not say which AMI in the form that Karpenter v1 requires"
    evidence = "verified"
    source = (
        "Karpenter v1.14 CRD ec2nodeclasses.karpenter.k8s.aws: amiSelectorTerms required, rules on alias and "
        "amiFamily"
    )
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Whole node classes."""
        spec = subject.get("spec")
        terms, family = spec.get("amiSelectorTerms"), spec.get("amiFamily")
        if subject.version != "v1" or spec.open or not spec.get("subnetSelectorTerms").exists or terms.unknown:
            return
        if terms.absent:
            what = f"amiFamily: {family.raw} alone" if family.exists else "nothing"
            yield self.hit(
                family if family.exists else spec,
                f"Karpenter v1 requires amiSelectorTerms, and {what} chooses the image: the API server "
                "refuses the object",
                "amiSelectorTerms: [{alias: al2023@v20250610}] with the release you tested",
            )
            return
        aliases = [term for term in terms.elements() if term.get("alias").exists]
        if aliases and (len(terms.elements()) > 1 or len(aliases[0].pairs()) > 1):
            yield self.hit(
                aliases[0].get("alias"),
                "an alias excludes every other way to select an AMI: the API server refuses the object",
                "the alias alone, or terms with id, name or tags and an amiFamily",
            )
        elif not aliases and terms.elements() and family.absent and not any(term.open for term in terms.elements()):
            yield self.hit(
                terms,
                "without an alias Karpenter does not know how to write the user data of this AMI: amiFamily "
                "is required "
                "and the API server refuses the object",
                "amiFamily: AL2023 (or Bottlerocket, Custom)",
            )
