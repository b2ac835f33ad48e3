"""TW004: the same key twice in one mapping."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument, KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule


class DuplicateKey(ProjectRule):
    """Parsers keep the last value without a word; strict ones refuse the file."""

    id = "TW004"
    severity = "error"
    category = "files"
    summary = "a key appears twice in one mapping"
    evidence = "reproduced"
    source = "YAML 1.2 §3.2.1.1; kubectl's strict decoding refuses it, PyYAML keeps the last value"

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """One hit for each repeated key."""
        for document in subject.documents:
            if isinstance(document, KubernetesObject | ConfigDocument):
                for node in document.node.walk():
                    for key in node.duplicates:
                        yield self.hit(
                            key.span,
                            f"the key {key.raw!r} stands twice in this mapping: the "
                            f"earlier value is lost, or the file is refused",
                            "keep one of them, or make it a list",
                            # A page often shows alternatives one below the other.
                            severity="warning" if document.path.endswith((".md", ".mdx", ".markdown")) else None,
                        )
