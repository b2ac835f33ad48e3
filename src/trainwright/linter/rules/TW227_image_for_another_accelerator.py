"""TW227: an image built for another accelerator than the pod asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)


class ImageForAnotherAccelerator(PodRule):
    """A CUDA build cannot drive Trainium, nor the other way round."""

    id = "TW227"
    severity = "warning"
    category = "accelerators"
    summary = "an image built for another accelerator than the pod asks for"
    evidence = "verified"
    source = (
        "names of the AWS Deep Learning Containers: pytorch-training-neuronx for Neuron, pytorch-training "
        "with -gpu- or -cu tags for NVIDIA"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """What the image's name says against the resource."""
        for container in subject.group.accelerated:
            image, resource = (container.image.string or "").lower(), container.accelerator or ""
            name = image.rsplit("/", 1)[-1]
            neuron, rocm = "neuron" in name, "rocm" in image
            cuda = bool(re.search(r"(^|[-_:.])(cu1[0-9]{1,2}|cuda[0-9.]*|gpu)([-_.]|$)", name))
            cpu = bool(re.search(r"[-_:.]cpu([-_.]|$)", name))
            if "neuron" in resource and cuda and not neuron:
                built = "CUDA"
            elif "nvidia.com" in resource and neuron:
                built = "Neuron"
            elif ("nvidia.com" in resource or "neuron" in resource) and rocm:
                built = "AMD GPUs (ROCm)"
            elif resource.startswith("amd.com/") and (neuron or (cuda and not rocm)):
                built = "Neuron" if neuron else "CUDA"
            elif cpu and not neuron and not cuda:
                built = "CPUs only"
            else:
                continue
            yield self.hit(
                container.image,
                f"the image is built for {built}, but the container asks for {resource}: the framework "
                "finds no device",
                "an image for "
                + (
                    "Neuron (…neuronx…)"
                    if "neuron" in resource
                    else "ROCm (rocm/pytorch)"
                    if resource.startswith("amd.com/")
                    else "CUDA (…-gpu-…-cu…)"
                ),
            )
