"""Run: one run as the renderers see it — spec, plan, site and node type, and the numbers that follow from them.

Built once by ``render``; every renderer takes this value. It must not know YAML or any kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trainwright.errors import InputError, Problem
from trainwright.facts import machine_file
from trainwright.facts.machines import Instance, Machine
from trainwright.planner.plan import Plan
from trainwright.runs import identity
from trainwright.spec.model import RunSpec
from trainwright.spec.paths import is_remote
from trainwright.spec.site import Claim, KubernetesSite, Site

#: Bytes/s at which a checkpoint reaches shared storage when the site does not say: what a small parallel file system
#: takes.
STORAGE = 1e9
_LEAST_GRACE = 120
_SPOT_GRACE = 110  # seconds; EC2 takes a spot node two minutes after its notice
_GIB = 2**30
#: What an EFA-ready EKS image sets aside before pods get anything: 5128 huge pages of 2 MiB.
_HUGE_PAGES = 5128 * 2 * 2**20
_MOST_SHARED_MEMORY = 64 * _GIB
_NO_CLAIM = Claim(name="trainwright", path="/trainwright")


@dataclass(frozen=True)
class Resources:
    """What one container asks for: whole CPUs, bytes of memory, and devices by resource name with the reason."""

    cpu: int
    memory: int
    devices: tuple[tuple[str, int, str], ...] = ()
    shared_memory: int = 0
    scratch: int = 0


@dataclass(frozen=True)
class Run:
    """One run on one cluster. ``root`` is its folder as pods see it; ``node`` is None where nothing is known of it.

    ``script`` is the text of the user's own script when the bundle carries it.
    """

    id: str
    plan: Plan
    spec: RunSpec
    site: Site
    versions: Mapping[str, str]
    root: str
    node: Machine | None
    script: str | None = None

    @property
    def name(self) -> str:
        """Name of its objects: a DNS label that begins with a letter, as services and operators need it."""
        name = identity.kubernetes_name(self.id)
        return name if name[0].isalpha() else f"r-{name}"

    @property
    def cluster(self) -> KubernetesSite:
        """The site's Kubernetes part."""
        return self.site.kubernetes or KubernetesSite()

    @property
    def nodes(self) -> int:
        """Nodes of the training stage."""
        return self.spec.compute.nodes

    @property
    def processes(self) -> int:
        """Ranks on each node."""
        return max(1, self.plan.layout.world_size // self.nodes)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of the run. An own script brings its own data."""
        return ("train", "finish") if self.spec.train else ("prepare", "train", "finish")

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Shared storage of every pod: the site's claims, or the one that is made for its storage class."""
        return self.cluster.claims or (_NO_CLAIM,)

    @property
    def makes_claim(self) -> bool:
        """Whether the bundle holds the claim itself."""
        return not self.cluster.claims

    @property
    def is_neuron(self) -> bool:
        """Whether the accelerators are Neuron devices."""
        return self.node is not None and self.node.accelerator.vendor.lower() == "aws"

    @property
    def on_efa(self) -> bool:
        """Whether ranks of several nodes meet over EFA."""
        return self.node is not None and self.nodes > 1 and self.node.nic == "efa" and self.node.nics > 0

    @property
    def retries(self) -> int:
        """Failures that are started again, of both kinds; the pod itself keeps the user's share to its budget."""
        return self.spec.retry.infrastructure + self.spec.retry.user

    def storage(self, path: str) -> str:
        """A folder beside the run's own, which all runs share."""
        return str(PurePosixPath(self.root).parent / path)

    def training(self) -> Resources:
        """What a pod of training asks for."""
        node = self.node
        if node is None:
            held = max((rank.bytes.total for rank in self.plan.ranks), default=0) * self.processes
            memory = _gib(2 * held + 2 * _GIB * (self.processes + 1))
            return Resources(self.processes + 1, memory, shared_memory=_shared_memory(memory))
        if self.nodes > 1 or self.processes >= node.count:
            return self._whole_node(node)
        return self._part(node, self.processes)

    def finishing(self) -> Resources:
        """What the stage after training asks for: an accelerator only where answers are generated on one."""
        if self.node is not None and (self.spec.evaluate.tasks or self.spec.evaluate.samples):
            return self._part(self.node, 1)
        weights = checkpoint_bytes(self.plan, weights_only=True)
        return Resources(4, _gib(8 * _GIB + 3 * weights))

    def preparing(self) -> Resources:
        """What tokenising asks for: a core and 2 GiB for each worker."""
        workers = self.spec.data.workers if self.spec.data and isinstance(self.spec.data.workers, int) else 4
        return Resources(workers, (2 * workers + 4) * _GIB)

    def grace_seconds(self) -> int:
        """Seconds from SIGTERM to SIGKILL: a minute, two steps, and the checkpoint at half of the bandwidth."""
        steps = 2 * self.plan.step_seconds.total if self.plan.step_seconds else 0.0
        seconds = 60 + steps + 2 * checkpoint_bytes(self.plan) / self.bandwidth
        rounded = max(_LEAST_GRACE, math.ceil(seconds / 30) * 30)
        return min(rounded, _SPOT_GRACE) if self.spec.compute.capacity == "spot" else rounded

    @property
    def bandwidth(self) -> float:
        """Bytes/s at which checkpoints are written."""
        return self.cluster.storage_gb_s * 1e9 if self.cluster.storage_gb_s else STORAGE

    def outside(self) -> list[str]:
        """Folders and files of the spec that no claim holds: they have to be in the image."""
        return [path for path in dict.fromkeys(_paths(self.spec)) if not self.holds(path) and path != self._carried]

    def holds(self, path: str) -> bool:
        """Whether a path lies on shared storage."""
        return any(PurePosixPath(path).is_relative_to(claim.path) for claim in self.claims)

    @property
    def scratch_folders(self) -> tuple[str, ...]:
        """Folders on the nodes' own drives that DeepSpeed offloads to."""
        zero = (self.spec.deepspeed or {}).get("zero_optimization") or {}
        parts = (zero.get("offload_optimizer") or {}, zero.get("offload_param") or {})
        paths = (part.get("nvme_path") for part in parts if part.get("device") == "nvme")
        return tuple(
            dict.fromkeys(p for p in paths if isinstance(p, str) and p.startswith("/") and not self.holds(p))
        )

    @property
    def _carried(self) -> str | None:
        return self.spec.train.script if self.spec.train and self.script is not None else None

    def _whole_node(self, node: Machine) -> Resources:
        cpu, memory = _allocatable(node)
        if self.on_efa or (node.nic == "efa" and node.nics > 0 and node.count > 1):
            memory -= _HUGE_PAGES
        # daemon sets (network, storage, device plugins, log shippers) come first: a core, and 3 % of the memory
        memory = _floor_gib(memory - max(2 * _GIB, memory * 3 // 100))
        devices = [self._device(node, node.count)]
        if self.on_efa:
            why = f"all EFA interfaces of a {node.name}; without them NCCL falls back to TCP"
            devices.append(("vpc.amazonaws.com/efa", node.nics, why))
        # of the drives, the kubelet keeps a tenth free, and images and logs take their part
        scratch = (node.nvme or 0) * 8 // 10 // _GIB * _GIB if self.scratch_folders else 0
        return Resources(max(1, (cpu - 1000) // 1000), memory, tuple(devices), _shared_memory(memory), scratch)

    def _part(self, node: Machine, accelerators: int) -> Resources:
        whole = self._whole_node(node)
        memory = max(_GIB, whole.memory * accelerators // node.count // _GIB * _GIB)
        cpu = max(1, whole.cpu * accelerators // node.count)
        return Resources(cpu, memory, (self._device(node, accelerators),), _shared_memory(memory))

    def _device(self, node: Machine, count: int) -> tuple[str, int, str]:
        resource = {"aws": "aws.amazon.com/neuron", "amd": "amd.com/gpu"}.get(node.accelerator.vendor.lower())
        of = f"all {node.count}" if count == node.count else f"{count} of {node.count}"
        return resource or "nvidia.com/gpu", count, f"{of} {node.accelerator.name} of a {node.name}"


def checkpoint_bytes(plan: Plan, *, weights_only: bool = False) -> float:
    """Bytes of one checkpoint: what ranks hold, each shard once however many replicas there are of it."""
    layout = plan.layout
    zero = layout.zero or 0
    total = 0.0
    for rank in plan.ranks:
        weights = rank.bytes.weights / (1 if zero == 3 else layout.dp_shard)
        state = (rank.bytes.master + rank.bytes.optimizer) / (1 if zero else layout.dp_shard)
        total += weights if weights_only else weights + state
    return total * layout.world_size / max(1, len(plan.ranks)) / layout.dp_replicate


def node_of(spec: RunSpec, site: Site) -> Machine | None:
    """The node type that the spec names; None for ``local``: then nothing is known of the nodes but their number."""
    name = spec.compute.instance
    if name == "local":
        return None
    return machine_file.read(Path(site.machines)) if name == "site" and site.machines else machine_file.find(name)


def root_of(run_id: str, spec: RunSpec, site: Site) -> str:
    """The run's folder in pods. InputError when pods cannot share the spec's storage."""
    cluster = site.kubernetes or KubernetesSite()
    if not cluster.claims and cluster.storage_class is None:
        what, instead = "is missing", "name a PersistentVolumeClaim that all pods mount: claims: [{name: …, path: …}]"
        raise InputError([Problem(site.name, field="kubernetes.claims", what=what, instead=instead)])
    claims = cluster.claims or (_NO_CLAIM,)
    storage = spec.storage or f"{claims[0].path.rstrip('/')}/runs"
    inside = any(PurePosixPath(storage).is_relative_to(claim.path) for claim in claims)
    if is_remote(storage) or not inside:
        paths = ", ".join(claim.path for claim in claims)
        what = f"is {storage}, but pods share only {paths}"
        raise InputError([Problem("", field="storage", what=what, instead=f"name a folder below {paths}")])
    return f"{storage.rstrip('/')}/{run_id}"


def _allocatable(node: Machine) -> tuple[int, int]:
    """Millicores and bytes that EKS leaves to pods; of other nodes, all but a twentieth."""
    if isinstance(node, Instance) and node.allocatable_cpu and node.allocatable_memory:
        return node.allocatable_cpu, node.allocatable_memory
    cpus = node.vcpus or 2 * node.count
    memory = node.memory or 4 * node.count * node.memory_usable // 2
    return cpus * 950, memory * 95 // 100


def _paths(spec: RunSpec) -> Iterator[str]:
    """Local paths that stages read or write outside the run's folder."""
    model, data = spec.model, spec.data
    found = [model.path if model else None, model.tokenizer if model else None]
    found += [source.path for source in (*data.sources, *data.eval_sources)] if data else []
    found += [data.chat_template if data else None, spec.register_.path if spec.register_ else None]
    found += [task.path for task in spec.evaluate.tasks]
    found.append(spec.train.script if spec.train else None)
    for path in found:
        if path is not None and path.startswith("/"):
            yield path


def _shared_memory(memory: int) -> int:
    """A quarter of the memory limit, which it counts against, and at most what data workers ever fill."""
    return min(_MOST_SHARED_MEMORY, max(_GIB, memory // 4 // _GIB * _GIB)) if memory > _GIB else memory // 2


def _gib(amount: float) -> int:
    return math.ceil(amount / _GIB) * _GIB


def _floor_gib(amount: float) -> int:
    return max(1, int(amount // _GIB)) * _GIB
