"""TW902: a throughput that the kind of FSx file system does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.facts.data import read_rows
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class FsxThroughput(ObjectRule):
    """perUnitStorageThroughput belongs to the persistent types, with fixed values."""

    id = "TW902"
    severity = "error"
    category = "storage"
    summary = "perUnitStorageThroughput has a value that this FSx deployment type does not offer"
    evidence = "verified"
    source = (
        "FSx API, CreateFileSystemLustreConfiguration; aws-fsx-csi-driver v1.9 forwards the value; "
        "aws/aws-cdk#18626; "
        "hashicorp/terraform-provider-aws#24341"
    )
    kinds: ClassVar[tuple[str, ...]] = ("StorageClass", "FileSystem")

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Storage classes of the FSx driver, and FileSystems of the ACK controller."""
        if subject.kind == "StorageClass":
            if subject.get("provisioner").string != "fsx.csi.aws.com":
                return
            holder, default = subject.get("parameters"), "SCRATCH_1"
        else:
            holder, default = subject.get("spec", "lustreConfiguration"), "SCRATCH_1"
            if subject.group != "fsx.services.k8s.aws":
                return
        kind, asked = holder.get("deploymentType"), holder.get("perUnitStorageThroughput")
        if kind.string is not None and kind.string not in read_rows("fsx") and not kind.unknown:
            yield self.hit(
                kind,
                f"FSx for Lustre has no deployment type {kind.string}: the request is refused and the claim stays "
                "Pending",
                f"one of {', '.join(read_rows('fsx'))}",
            )
            return
        if asked.integer is None or kind.unknown or holder.open or holder.get("storageType").string == "HDD":
            return
        row = read_rows("fsx").get(kind.string or default)
        if row is None or asked.integer in row["throughput"]:
            return
        name = kind.string or default
        if row["throughput"]:
            right = ", ".join(str(value) for value in row["throughput"])
            why = f"{name} has no throughput of {asked.integer} MB/s per TiB: FSx refuses the request and "
            instead = f"one of {right}"
        else:
            why = f"{name} has a fixed throughput and takes no perUnitStorageThroughput: FSx refuses the request and "
            instead = "deploymentType: PERSISTENT_2 with 125, 250, 500 or 1000, or drop the parameter"
        yield self.hit(asked, why + "the claim stays Pending", instead)
