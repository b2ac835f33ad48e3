"""TW236: a node installs Neuron's libraries and not its driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject, ScriptDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_INSTALLERS = ("yum", "dnf", "apt-get", "apt")


class NeuronHostWithoutDriver(ObjectRule):
    """The host needs the driver; libraries belong into the container."""

    id = "TW236"
    severity = "warning"
    category = "accelerators"
    summary = "node user data installs Neuron's libraries without its driver"
    evidence = "verified"
    source = (
        "aws-neuron-sdk: aws-neuronx-dkms is the kernel driver; aws-neuronx-runtime-lib and -collectives are "
        "libraries of the program (announce-no-support-al2)"
    )
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Package installations in userData."""
        for script in project.held_by(subject):
            if not isinstance(script, ScriptDocument):
                continue
            installed = [
                word
                for command in script.plain.commands
                if any(word.known in _INSTALLERS for word in command.words[:2])
                for word in command.words
                if (word.known or "").startswith("aws-neuronx-")
            ]
            names = [word.known or "" for word in installed]
            if any(name.startswith("aws-neuronx-dkms") for name in names):
                continue
            libraries = [
                w for w in installed if (w.known or "").startswith(("aws-neuronx-runtime", "aws-neuronx-coll"))
            ]
            if libraries:
                yield self.hit(
                    libraries[0],
                    f"{libraries[0].known} is a library of the training program, which brings its own in its image; "
                    "what the node needs is the driver, and without aws-neuronx-dkms there is no /dev/neuron0 and "
                    "the device plugin advertises nothing",
                    "amiSelectorTerms: [{alias: al2023@…}], whose Neuron variant has the driver, or aws-neuronx-dkms",
                )
