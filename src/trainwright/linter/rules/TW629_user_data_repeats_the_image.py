"""TW629: user data that installs what the accelerated AMI has, or stops the boot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject, ScriptDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.nodepools import pool_types, pools_of

_DRIVER = re.compile(
    r"(?:kmod-)?nvidia-(?:driver|dkms|open|fabric|container)|cuda(?:-drivers?|-toolkit)?(?:-|$)|aws-neuronx?-dkms"
)


class UserDataRepeatsTheImage(ObjectRule):
    """The accelerated images of EKS bring drivers, EFA and the container toolkit."""

    id = "TW629"
    severity = "note"
    category = "scheduling"
    summary = "node user data installs what the accelerated AMI already has"
    evidence = "verified"
    source = (
        "awslabs/amazon-eks-ami templates/al2023/variables-default.json (enable_efa: true) and its NVIDIA and Neuron "
        "variants; aws/karpenter-provider-aws launchtemplate.go: EFA interfaces by request or networkInterfaces"
    )
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Installers and clock settings in userData."""
        for script in project.held_by(subject):
            if isinstance(script, ScriptDocument):
                yield from self._installer(subject, script)
                yield from self._drivers(script)
                yield from self._clocks(subject, script, project)

    def _installer(self, subject: KubernetesObject, script: ScriptDocument) -> Iterator[Hit]:
        for command in script.plain.commands:
            word = next(
                (w for w in command.words if "efa-installer" in w.expanded or "efa_installer" in w.expanded), None
            )
            if word is None:
                continue
            attached = subject.get("spec", "networkInterfaces").exists
            yield self.hit(
                word,
                "the accelerated AMIs of EKS have the EFA driver: every node downloads and builds it once more while "
                "its accelerators are paid"
                + (", in whatever version is the latest that day" if "latest" in word.expanded else "")
                + (
                    ""
                    if attached
                    else ". It attaches no EFA interface either: Karpenter does that for pods that request "
                    "vpc.amazonaws.com/efa, or by networkInterfaces"
                ),
                "no installer, an accelerated AMI (alias al2023@…), and the request for EFA in the pods",
            )
            return

    def _drivers(self, script: ScriptDocument) -> Iterator[Hit]:
        for command in script.plain.commands:
            if command.name not in ("yum", "dnf", "apt-get", "apt") or not command.has("install"):
                continue
            package = next((w for w in command.words[1:] if _DRIVER.match(w.expanded)), None)
            if package is not None:
                yield self.hit(
                    package,
                    f"the accelerated AMIs of EKS have drivers that fit their kernel: {package.expanded} is built or "
                    "installed over them on every node, takes minutes of paid time, and a version that does not fit "
                    "leaves the node without devices",
                    "no driver packages, and an accelerated AMI of the release that has the driver you need",
                    severity="warning",
                )
                return

    def _clocks(self, subject: KubernetesObject, script: ScriptDocument, project: Project) -> Iterator[Hit]:
        strict = any(
            command.name == "set"
            and any(w.expanded.startswith("-") and "e" in w.expanded for w in command.words[1:2])
            for command in script.plain.commands
        )
        kinds = {kind.name for pool in pools_of(subject, project) for _, kind in pool_types(pool)}
        for command in script.plain.commands:
            if command.name == "nvidia-smi" and command.has("-ac", "--applications-clocks") and strict:
                several = f" ({', '.join(sorted(kinds))} are allowed here)" if len(kinds) > 1 else ""
                yield self.hit(
                    command,
                    f"a pair of clocks fits one GPU model only{several}: on another one nvidia-smi fails, set -e "
                    "ends the script, and the node may never join",
                    "no fixed clocks, or one instance type in the pool and || true after the command",
                    severity="warning" if len(kinds) > 1 else None,
                )
                return
