"""The pod template that all kinds share: resources, storage, environment, placement and safety of one stage.

Takes a run, a stage and how its nodes find each other; gives a plain value with the reasons beside what is not
obvious. It must not know the object around the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwright.errors import InputError, Problem
from trainwright.runs.fabric import NETWORK_VARIABLE
from trainwright.runs.folder import RUN_DIR_VARIABLE
from trainwright.targets.kubernetes.labels import MANAGED_BY, MANAGER, RUN, STAGE
from trainwright.targets.kubernetes.manifest import why, without_none
from trainwright.targets.kubernetes.run import Resources, Run

PORT = 29500
COMMAND = ("python3", "-P", "-m", "trainwright.targets.kubernetes.pod")
CONFIG = "/etc/trainwright"
SCRIPT_KEY = "script.py"
_GIB = 2**30
_USER = 1000
#: Labels of EC2's network topology, from the closest switch up. EKS puts them on nodes.
_SAME_SWITCH = "topology.k8s.aws/network-node-layer-3"
_ZONE = "topology.kubernetes.io/zone"
_CPU_STAGE_GRACE = 60
_DRIVES = "the node's own NVMe drives: they must be its ephemeral storage (Karpenter: instanceStorePolicy RAID0)"


@dataclass(frozen=True)
class Place:
    """How the nodes of a gang find each other: words for the training command, expanded by the kubelet.

    ``node_rank`` may refer to a variable as ``$(NAME)``; ``rendezvous`` is ``host:port`` of the first node.
    ``options`` are further words for the command.
    """

    node_rank: str = "0"
    rendezvous: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """What the object around a pod template decides about it."""

    container: str = "trainer"
    restart_policy: str | None = "Never"
    port_name: str = "rendezvous"
    scheduler: str | None = None
    subdomain: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def labels(run: Run, stage: str) -> dict[str, str]:
    """Labels of every object and pod of a run."""
    return {MANAGED_BY: MANAGER, RUN: run.name, STAGE: stage}


def metadata(run: Run, stage: str, name: str | None = None, *, queue: str | None = None) -> dict[str, Any]:
    """Metadata of an object; ``queue`` adds the label by which Kueue admits it as a whole."""
    found: dict[str, Any] = labels(run, stage)
    if queue:
        found["kueue.x-k8s.io/queue-name"] = why(queue, "Kueue starts all pods of this object together, or none")
    return {"name": name or run.name, "namespace": run.cluster.namespace, "labels": found}


def resources_of(run: Run, stage: str) -> Resources:
    """What a stage's pod asks for."""
    return {"prepare": run.preparing, "train": run.training, "finish": run.finishing}[stage]()


def template(run: Run, stage: str, place: Place | None = None, shape: Shape | None = None) -> dict[str, Any]:
    """The pod template of a stage."""
    place, shape = place or Place(), shape or Shape()
    asked = resources_of(run, stage)
    return {
        "metadata": {"labels": labels(run, stage), "annotations": _annotations(stage)},
        "spec": without_none(
            {
                "restartPolicy": shape.restart_policy,
                "schedulerName": shape.scheduler,
                "subdomain": shape.subdomain,
                "priorityClassName": run.cluster.priority_class,
                "serviceAccountName": run.cluster.service_account,
                "automountServiceAccountToken": why(False, "training never talks to the API server"),
                "enableServiceLinks": why(False, "variables of every service of the namespace could hide our own"),
                "terminationGracePeriodSeconds": _grace(run, stage),
                "nodeSelector": _selector(run, stage, asked) or None,
                "affinity": _affinity(run, stage, asked),
                "tolerations": _tolerations(run, asked) or None,
                "securityContext": pod_security(run),
                "imagePullSecrets": [{"name": name} for name in run.cluster.image_pull_secrets] or None,
                "containers": [_container(run, stage, place, shape, asked)],
                "volumes": volumes(run, asked),
            }
        ),
    }


def _container(run: Run, stage: str, place: Place, shape: Shape, asked: Resources) -> dict[str, Any]:
    return without_none(
        {
            "name": shape.container,
            "image": image_of(run),
            "command": list(COMMAND),
            "args": arguments(run, stage, place),
            "env": environment(run, stage, shape.environment),
            "ports": [{"name": shape.port_name, "containerPort": PORT}]
            if stage == "train" and run.nodes > 1
            else None,
            "resources": resources(asked),
            "securityContext": container_security(),
            "terminationMessagePolicy": why("FallbackToLogsOnError", "the last lines outlive the pod's log"),
            "volumeMounts": mounts(run, asked),
        }
    )


def arguments(run: Run, stage: str, place: Place) -> list[str]:
    """Words behind the command. The user's own arguments are in the spec, which travels as a file."""
    if stage != "train":
        return [stage, *place.options]
    meet = ["--nodes", str(run.nodes), "--node-rank", place.node_rank, "--rendezvous", place.rendezvous]
    return [stage, *(meet if run.nodes > 1 else ()), *place.options]


def image_of(run: Run) -> str:
    """The spec's image. InputError when there is none."""
    if not run.spec.image:
        what, instead = "is missing: pods need one", "name one; `trainwright image` writes its Dockerfile"
        raise InputError([Problem("", field="image", what=what, instead=instead)])
    return run.spec.image


def resources(asked: Resources) -> dict[str, Any]:
    """Requests and limits of a container."""
    memory = quantity(asked.memory)
    devices = {name: count for name, count, _ in asked.devices}
    unlimited = "no limit: it would only throttle"
    return {
        "requests": {
            "cpu": why(str(asked.cpu), f"what the node has left for pods; {unlimited}" if devices else unlimited),
            "memory": memory,
            **{name: why(count, reason) for name, count, reason in asked.devices},
            **({"ephemeral-storage": why(quantity(asked.scratch), _DRIVES)} if asked.scratch else {}),
        },
        "limits": {"memory": memory, **devices},
    }


def quantity(amount: int) -> str:
    """Bytes as Kubernetes writes them."""
    return f"{amount // _GIB}Gi" if amount % _GIB == 0 else f"{amount // 2**20}Mi"


def environment(run: Run, stage: str, more: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Variables of a stage: ours, then the spec's in their place or behind them, then secrets by reference."""
    found: dict[str, Any] = {RUN_DIR_VARIABLE: run.root, **(more or {})}
    found["PYTHONUNBUFFERED"] = why("1", "a log that lags behind is no help when a process hangs")
    found["HOME"] = why("/tmp", "the image may have no home for this user")
    found["USER"] = why("trainwright", "PyTorch asks for the user's name, which the image may not know")
    found["HF_HOME"] = why(run.storage(".cache/huggingface"), "downloaded once, for all nodes")
    if stage == "train":
        found |= _network(run)
    found |= run.spec.env
    entries = [_variable(name, value) for name, value in found.items()]
    return [*entries, *_secrets(run)]


def escaped(text: str) -> str:
    """Text that the kubelet gives to the process unchanged: ``$(NAME)`` is a reference, ``$$`` a dollar sign."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def volumes(run: Run, asked: Resources) -> list[dict[str, Any]]:
    """The config map, the site's claims and shared memory."""
    found: list[dict[str, Any]] = [{"name": "config", "configMap": {"name": f"{run.name}-spec"}}]
    for index, claim in enumerate(run.claims, 1):
        found.append({"name": f"storage-{index}", "persistentVolumeClaim": {"claimName": claim.name}})
    if asked.scratch:
        found.append({"name": "scratch", "emptyDir": {"sizeLimit": quantity(asked.scratch)}})
    if asked.shared_memory:
        size = why(quantity(asked.shared_memory), "counts against the memory limit")
        found.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
    return found


def mounts(run: Run, asked: Resources) -> list[dict[str, Any]]:
    """Where a container sees its volumes."""
    found: list[dict[str, Any]] = [{"name": "config", "mountPath": CONFIG, "readOnly": True}]
    if run.spec.train is not None and run.script is not None:
        own = {"name": "config", "mountPath": run.spec.train.script, "subPath": SCRIPT_KEY, "readOnly": True}
        found.append(why(own, "train.script, carried in the config map"))  # type: ignore[arg-type]
    for index, claim in enumerate(run.claims, 1):
        found.append({"name": f"storage-{index}", "mountPath": claim.path})
    for path in run.scratch_folders if asked.scratch else ():
        found.append({"name": "scratch", "mountPath": why(path, "what DeepSpeed offloads"), "subPath": "offload"})
    if asked.shared_memory:
        reason = "ranks and data workers pass tensors through it; the default is 64 MiB"
        found.append({"name": "shm", "mountPath": why("/dev/shm", reason)})
    return found


def pod_security(run: Run) -> dict[str, Any]:
    """What a namespace of the restricted level asks for. A site may run as root, which it does not allow."""
    user = _USER if run.cluster.user is None else run.cluster.user
    return {
        "runAsNonRoot": user != 0,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "fsGroupChangePolicy": why("OnRootMismatch", "else every start walks through all files of the storage"),
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """What a namespace of the restricted level asks of a container."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _annotations(stage: str) -> dict[str, Any]:
    if stage != "train":
        return {"karpenter.sh/do-not-disrupt": "true"}
    return {
        "karpenter.sh/do-not-disrupt": why("true", "one pod that is moved restarts all of them"),
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    }


def _grace(run: Run, stage: str) -> Any:
    if stage != "train":
        return _CPU_STAGE_GRACE
    if run.spec.compute.capacity == "spot":
        return why(run.grace_seconds(), "EC2 takes a spot node two minutes after its notice")
    return why(run.grace_seconds(), f"to finish a step and save at {run.bandwidth / 1e9:g} GB/s, twice over")


def _selector(run: Run, stage: str, asked: Resources) -> dict[str, Any]:
    if stage != "train" and not asked.devices:
        return {}
    found: dict[str, Any] = dict(run.cluster.node_labels)
    if run.node is not None and run.node.provider == "ec2":
        found["node.kubernetes.io/instance-type"] = run.node.name
    if stage == "train" and run.nodes > 1 and len(run.site.zones) == 1:
        found[_ZONE] = why(run.site.zones[0], "all nodes in one zone: EFA does not leave it")
    return found


def cpu_affinity() -> dict[str, Any]:
    """Away from the nodes with accelerators, if there is another place."""
    keys = ("karpenter.k8s.aws/instance-gpu-count", "nvidia.com/gpu.present")
    avoid = [{"key": key, "operator": "DoesNotExist"} for key in keys]
    soft = [{"weight": 100, "preference": {"matchExpressions": avoid}}]
    rule = {"preferredDuringSchedulingIgnoredDuringExecution": soft}
    return {"nodeAffinity": why(rule, "these pods need no accelerator, others do")}


def _affinity(run: Run, stage: str, asked: Resources) -> dict[str, Any] | None:
    if not asked.devices:
        return cpu_affinity() if run.node is not None or stage != "train" else None
    # only nodes with the label of a zone could be chosen, and elsewhere than on EC2 they may have none
    if stage != "train" or run.nodes == 1 or run.node is None or run.node.provider != "ec2":
        return None
    own = {"matchLabels": {RUN: run.name, STAGE: "train"}}
    zone = {"labelSelector": own, "topologyKey": _ZONE}
    switch = {"weight": 100, "podAffinityTerm": {"labelSelector": own, "topologyKey": _SAME_SWITCH}}
    near = {
        "requiredDuringSchedulingIgnoredDuringExecution": why([zone], "all nodes in one zone: EFA does not leave it"),
        "preferredDuringSchedulingIgnoredDuringExecution": why([switch], "and behind one switch where that can be"),
    }
    return {"podAffinity": near}


def _tolerations(run: Run, asked: Resources) -> list[Any]:
    found: list[Any] = [dict(toleration) for toleration in run.cluster.tolerations]
    if asked.devices:
        accelerator = asked.devices[0][0]
        if not any(toleration.get("key") == accelerator for toleration in run.cluster.tolerations):
            found.append({"key": accelerator, "operator": "Exists", "effect": "NoSchedule"})
    return found


def _network(run: Run) -> dict[str, Any]:
    """EFA's and Neuron's variables for this machine; nothing that recent releases find out by themselves."""
    found: dict[str, Any] = {}
    if run.on_efa:
        reason = "the fork of data workers fails with huge pages, which Karpenter does not know either"
        found["FI_EFA_USE_HUGE_PAGE"] = why("0", reason)
    if run.on_efa and not run.is_neuron:
        found[NETWORK_VARIABLE] = why("efa", "ends early, with the reason, when NCCL does not use it")
    if run.is_neuron:
        cache = run.storage(".cache/neuron")
        found["NEURON_COMPILE_CACHE_URL"] = why(cache, "compiled once: graphs take minutes to hours")
        if run.on_efa:
            found["FI_PROVIDER"] = why("efa", "Neuron's libfabric does not choose EFA by itself")
            found["FI_EFA_USE_DEVICE_RDMA"] = why("1", "device memory straight to the network")
            found["FI_EFA_FORK_SAFE"] = why("1", "data workers fork")
    return found


def _variable(name: str, value: Any) -> Any:
    reason = getattr(value, "reason", "")
    text = escaped(value.value if reason else value)
    return {"name": name, "value": why(text, reason) if reason else text}


def _secrets(run: Run) -> Sequence[dict[str, Any]]:
    found, problems = [], []
    for name, reference in run.spec.secrets.items():
        secret, slash, key = (reference.kubernetes or "").partition("/")
        if secret and slash and key:
            found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
            continue
        what = "is kept on this machine, which pods do not see"
        if reference.kubernetes is not None:
            what = f"is {reference.kubernetes!r}, not a Secret and its key"
        make = f"kubectl create secret generic NAME --from-literal={name}=…"
        problems.append(Problem("", field=f"secrets.{name}", what=what, instead=f"{make}; kubernetes: NAME/{name}"))
    if problems:
        raise InputError(problems)
    return found
