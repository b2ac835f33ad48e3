"""TW907: a data repository association inside an ACK FileSystem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class FsxAssociationInFileSystem(ObjectRule):
    """It is an API of its own."""

    id = "TW907"
    severity = "error"
    category = "storage"
    summary = "an ACK FileSystem has no field for data repository associations"
    evidence = "verified"
    source = (
        "aws-controllers-k8s/fsx-controller CRD filesystems.fsx.services.k8s.aws; FSx API "
        "CreateDataRepositoryAssociation"
    )
    kinds: ClassVar[tuple[str, ...]] = ("FileSystem",)
    groups: ClassVar[tuple[str, ...]] = ("fsx.services.k8s.aws",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """lustreConfiguration."""
        lustre = subject.get("spec", "lustreConfiguration")
        for name in ("dataRepositoryAssociations", "dataRepositoryAssociation"):
            for place in (lustre, subject.get("spec")):
                found = place.get(name)
                if found.exists:
                    yield self.hit(
                        found,
                        f"{name} is no field of a FileSystem: kubectl refuses it, or it is dropped and the "
                        "file system "
                        "stays empty, with no link to the bucket",
                        "a data repository association made with the FSx API, Terraform or CloudFormation",
                    )
        kind = lustre.get("deploymentType").string
        for name in ("importPath", "exportPath"):
            if kind == "PERSISTENT_2" and lustre.get(name).exists:
                yield self.hit(
                    lustre.get(name),
                    f"PERSISTENT_2 takes no {name}: a bucket is linked by a data repository association",
                    "a data repository association, or SCRATCH_2",
                    "warning",
                )
