"""TW618: nodes take whatever AMI is the newest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.nodepools import pool_accelerated, pools_of


class ImageNotPinned(ObjectRule):
    """A new release drifts all nodes."""

    id = "TW618"
    severity = "note"
    category = "scheduling"
    summary = "the AMI alias @latest changes driver versions, and replaces nodes, without notice"
    evidence = "verified"
    source = "Karpenter v1.14 NodeClass documentation: @latest is not recommended for production"
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Aliases of accelerator node classes."""
        for term in subject.get("spec", "amiSelectorTerms").elements():
            alias = term.get("alias")
            if (alias.string or "").endswith("@latest") and any(map(pool_accelerated, pools_of(subject, project))):
                yield self.hit(
                    alias,
                    f"{alias.raw} follows every AMI release: GPU driver and EFA versions change between two "
                    "runs, and "
                    "drift replaces running nodes",
                    "a pinned release, such as al2023@v20250610",
                )
