"""TW719: a pod's GPU limit is not Slurm's GRES."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class SlinkyGpusUnknownToSlurm(ObjectRule):
    """Slurm learns of GPUs through ``Gres=``."""

    id = "TW719"
    severity = "warning"
    category = "operators"
    summary = "a NodeSet's GPUs are not known to Slurm"
    evidence = "verified"
    source = (
        "slurm-operator docs and api/v1beta1/nodeset_types.go: slurmd registers with extraConf; Slurm "
        "gres.conf manual"
    )
    kinds: ClassVar[tuple[str, ...]] = ("NodeSet",)
    groups: ClassVar[tuple[str, ...]] = ("slinky.slurm.net",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Accelerators without Gres."""
        spec = subject.get("spec")
        extra = spec.get("extraConf")
        if subject.version != "v1beta1" or extra.unknown or spec.open or "gres=" in (extra.string or "").lower():
            return
        for part in ("limits", "requests"):
            for key, value in spec.get("slurmd", "resources", part).pairs():
                if (
                    key.raw in ("nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron")
                    and (value.quantity or 0) > 0
                ):
                    yield self.hit(
                        key,
                        f"the pods get {value.raw} accelerators, but Slurm learns of them only through Gres= in "
                        f"extraConf: "
                        f"jobs that ask for GPUs stay pending or are refused",
                        f'extraConf: "Gres=gpu:{value.raw}", and GresTypes=gpu in the Controller\'s extraConf',
                    )
                    return
