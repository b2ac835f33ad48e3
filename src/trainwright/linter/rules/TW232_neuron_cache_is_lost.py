"""TW232: the Neuron compile cache is lost with the pod."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.network import settings


class NeuronCacheIsLost(PodRule):
    """Compiling a large model takes up to hours."""

    id = "TW232"
    severity = "warning"
    category = "accelerators"
    summary = "the Neuron compile cache is lost with the pod"
    evidence = "verified"
    source = (
        "aws-neuron-sdk, Neuron persistent cache: default /var/tmp/neuron-compile-cache; "
        "NEURON_COMPILE_CACHE_URL may be a shared path or s3://"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Where the cache's path leads."""
        group = subject.group
        for container in group.accelerated:
            if (
                "neuron" not in (container.accelerator or "")
                or container.env_open
                or not any(launch.tool and launch.container is container for launch in subject.job.training_launches)
                or not subject.job.ends
            ):
                continue
            variable = next(settings(subject.job, group, "NEURON_COMPILE_CACHE_URL"), None)
            flags = next(settings(subject.job, group, "NEURON_CC_FLAGS"), None)
            if flags is not None and (flags.value.known is None or "cache_dir" in flags.value.known):
                continue
            path = variable.value.known if variable is not None else "/var/tmp/neuron-compile-cache"
            if path is None or "://" in path or not path.startswith("/"):
                continue
            mount = container.mount_of(path)
            if mount is not None and (mount.volume is None or mount.volume.kind not in ("emptyDir", "ephemeral")):
                continue
            where = "on an emptyDir" if mount is not None else "inside the container"
            yield self.hit(
                variable or container,
                f"the compile cache {path} is {where}: each restart and each pod compiles every graph "
                "again, while the devices wait",
                "NEURON_COMPILE_CACHE_URL on a shared file system or s3://…",
            )
