"""The config map of a run, and its claim where the site has only a storage class.

The config map holds what every stage reads: the resolved spec, the plan and, when it is small and on this machine,
the user's own script. It must not know pods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainwright.errors import InputError, Problem
from trainwright.targets.kubernetes.labels import MANAGED_BY, MANAGER
from trainwright.targets.kubernetes.manifest import why
from trainwright.targets.kubernetes.pods import SCRIPT_KEY, metadata
from trainwright.targets.kubernetes.run import Run, checkpoint_bytes

_MOST = 1024 * 1024  # bytes; the API server takes no larger config map
_STEP = 1200  # GiB; the sizes that FSx for Lustre sells, and nothing to other drivers


def config_map(run: Run, texts: Mapping[str, str]) -> dict[str, Any]:
    """The object, with the files that every bundle carries. InputError when that is more than Kubernetes keeps."""
    data = dict(texts)
    if run.script is not None:
        data[SCRIPT_KEY] = run.script
    size = sum(len(text.encode()) for text in data.values())
    if size > _MOST:
        large = max(data, key=lambda key: len(data[key]))
        what = f"is too large: {size} bytes with spec and plan, and a ConfigMap holds {_MOST}"
        instead = "put the script into the image or on shared storage" if large == SCRIPT_KEY else "shorten it"
        raise InputError([Problem(large, what=what, instead=instead)])
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(run, "config", f"{run.name}-spec"),
        "immutable": why(True, "what was shown is what runs"),
        "data": data,
    }


def claim(run: Run) -> dict[str, Any]:
    """A claim for all runs of the namespace; room for this run's checkpoints ten times over."""
    needed = 10 * (run.spec.checkpoint.keep + 1) * checkpoint_bytes(run.plan) / 2**30
    steps = max(1, math.ceil(needed / _STEP))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": run.claims[0].name,
            "namespace": run.cluster.namespace,
            "labels": {MANAGED_BY: MANAGER},
        },
        "spec": {
            "accessModes": why(["ReadWriteMany"], "every node writes its part of a checkpoint"),
            "storageClassName": run.cluster.storage_class,
            "resources": {"requests": {"storage": f"{_STEP if steps == 1 else 2 * _STEP * math.ceil(steps / 2)}Gi"}},
        },
    }
