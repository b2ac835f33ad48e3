"""TW853: a value that DeepSpeed's configuration does not allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.facts.data import read_rows
from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit


class DeepspeedValue(ConfigRule):
    """Stages and devices are enumerations."""

    id = "TW853"
    severity = "error"
    category = "frameworks"
    summary = "a value that DeepSpeed does not allow here"
    evidence = "verified"
    source = (
        "deepspeed/runtime/zero/config.py (ZeroStageEnum 0 to 3) and offload_config.py (OffloadDeviceEnum none, cpu, "
        "nvme), 0.19: pydantic refuses other values; stage3.py joins nvme_path, whose default is None"
    )
    roles: ClassVar[tuple[Role, ...]] = ("deepspeed", "accelerate")

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Enumerated values of DeepSpeed files and of Accelerate's DeepSpeed section."""
        for place, row in read_rows("deepspeed_values").items():
            in_accelerate = place.startswith("deepspeed_config.")
            if in_accelerate is not (subject.role == "accelerate"):
                continue
            node = subject.get(*place.split("."))
            written = node.integer if node.integer is not None else node.string
            if written is None or written == "auto" or node.type == "mapping":
                continue
            if str(written) not in [str(value) for value in row["values"]]:
                yield self.hit(
                    node,
                    f"{place} is {node.raw}, and DeepSpeed knows {', '.join(map(str, row['values']))} only: it stops "
                    "at start with a validation error on every rank",
                    f"{row['instead']}",
                )
        for offload in ("offload_optimizer", "offload_param") if subject.role == "deepspeed" else ():
            section = subject.get("zero_optimization", offload)
            if section.get("device").string == "nvme" and not section.open and not section.get("nvme_path").exists:
                yield self.hit(
                    section.get("device"),
                    f"{offload} goes to nvme and no nvme_path says where: DeepSpeed stops when it builds the "
                    "folder's name, on every rank",
                    '"nvme_path": "/local_nvme", a folder on a local NVMe disk of every node',
                )
