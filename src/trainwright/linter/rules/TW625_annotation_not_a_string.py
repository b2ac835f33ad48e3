"""TW625: an annotation or label whose value is no string."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class AnnotationNotAString(ObjectRule):
    """``true`` without quotes is a boolean."""

    id = "TW625"
    severity = "error"
    category = "scheduling"
    summary = "an annotation, label or node selector has a value that is no string"
    evidence = "verified"
    source = (
        "k8s.io/kubernetes@v1.36.3 api/openapi-spec/swagger.json: annotations and labels of ObjectMeta and "
        "nodeSelector of PodSpec are maps of strings"
    )

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Every metadata and nodeSelector of workloads."""
        if subject.templated:
            return
        maps = [subject.metadata.get("annotations"), subject.metadata.get("labels")]
        for node in subject.node.walk():
            template = node.get("template") if node.type == "mapping" else None
            if template is None or template.type != "mapping":
                continue
            for part in (("metadata", "annotations"), ("metadata", "labels"), ("spec", "nodeSelector")):
                found = template.get(*part)
                if found.type == "mapping":
                    maps.append(found)
        seen: set[int] = set()
        for found in maps:
            for key, value in found.pairs():
                if value.type in ("bool", "int", "float") and id(value) not in seen:
                    seen.add(id(value))
                    yield self.hit(
                        value,
                        f"{key.raw} is {value.raw}, a {value.type}, where the API takes strings only: the API server "
                        "refuses the object",
                        f'{key.raw}: "{value.raw}"',
                    )
