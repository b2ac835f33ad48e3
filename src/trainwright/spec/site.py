"""Site: what a cluster is, apart from any run. Its ``defaults`` are merged under the spec."""

from __future__ import annotations

from typing import Any, Literal

from trainwright.spec.paths import LocalPath
from trainwright.spec.section import NaturalInt, Number, PositiveInt, Section
from trainwright.spec.units import Duration


class SlurmContainer(Section):
    """How jobs run in a container on this Slurm."""

    runtime: Literal["none", "pyxis", "apptainer"] = "none"
    """``pyxis`` is NVIDIA's srun plugin over Enroot."""
    mounts: tuple[str, ...] = ()
    """``host:container`` pairs, beside the run's own folders."""


class SlurmSite(Section):
    """One Slurm cluster."""

    cluster: str | None = None
    """Cluster name, for sites with several."""
    login: str | None = None
    """Where Slurm is, when not here: a host for ``ssh``, ``kubectl://NAMESPACE/POD``, or a slurmrestd's URL."""
    version: str | None = None
    """Slurm version such as ``23.11``, when it cannot be asked."""
    partition: str | None = None
    """Partition of training jobs."""
    cpu_partition: str | None = None
    """Partition of the steps that need no accelerator."""
    account: str | None = None
    """Account that is charged."""
    qos: str | None = None
    """Quality of service."""
    constraint: str | None = None
    """Node features, as for ``--constraint``."""
    reservation: str | None = None
    """Reservation to run in."""
    exclude: tuple[str, ...] = ()
    """Nodes never to use."""
    gpus: Literal["gres", "gpus-per-node", "exclusive"] = "gpus-per-node"
    """How accelerators are asked for; ``exclusive`` for clusters without GRES."""
    gres: str = "gpu"
    """GRES name, such as ``gpu:a100``."""
    time_limit: Duration | None = None
    """Longest time of one job."""
    modules: tuple[str, ...] = ()
    """Environment modules to load."""
    setup: tuple[str, ...] = ()
    """Shell lines before the launch, such as activating a virtual environment."""
    container: SlurmContainer = SlurmContainer()
    """Containers."""


class Claim(Section):
    """A PersistentVolumeClaim that every pod of a run mounts."""

    name: str
    """Name of the claim."""
    path: str
    """Where it is mounted."""


class KubernetesSite(Section):
    """One Kubernetes cluster and namespace."""

    context: str | None = None
    """Context of your kubeconfig. Default: the current one."""
    namespace: str = "default"
    """Namespace of runs."""
    queue: str | None = None
    """Kueue LocalQueue or Volcano Queue."""
    cpu_queue: str | None = None
    """Kueue LocalQueue of the stages that need no accelerator, where Kueue manages every Job."""
    claims: tuple[Claim, ...] = ()
    """Shared storage."""
    service_account: str | None = None
    """Service account of the pods."""
    node_labels: dict[str, str] = {}
    """Node selector of training pods."""
    tolerations: tuple[dict[str, Any], ...] = ()
    """Tolerations of training pods, as Kubernetes writes them."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of pull secrets."""
    storage_class: str | None = None
    """StorageClass of new claims."""
    storage_gb_s: Number | None = None
    """GB/s at which checkpoints reach the shared storage. Default: 1. It decides how long a stopped pod may save."""
    priority_class: str | None = None
    """PriorityClass of the pods."""
    user: NaturalInt | None = None
    """User id of the containers. Default: 1000, as restricted namespaces need it; 0 is root."""


class RaySite(Section):
    """One running Ray."""

    address: str | None = None
    """Its dashboard, such as ``http://head:8265``. Default: ``RAY_API_SERVER_ADDRESS``, else this machine's."""
    python: str = "python3"
    """Python on Ray's nodes that has trainwright."""


class Site(Section):
    """A cluster. Given with ``--site``, or ``site.yaml`` beside the spec."""

    version: Literal[1] = 1
    """Version of this format."""
    name: str = "site"
    """Name shown in messages."""
    region: str | None = None
    """AWS region, such as ``us-east-1``."""
    zones: tuple[str, ...] = ()
    """Availability zones with capacity."""
    prices: dict[str, Number] = {}
    """US dollars an hour and node, by instance type; used instead of the public price."""
    machines: LocalPath | None = None
    """File that describes your own machines, for ``compute.instance``."""
    max_nodes: PositiveInt | None = None
    """Most nodes one run may ask for."""
    slurm: SlurmSite | None = None
    """Set on a Slurm cluster."""
    kubernetes: KubernetesSite | None = None
    """Set on a Kubernetes cluster."""
    ray: RaySite | None = None
    """Set for a running Ray."""
    defaults: dict[str, Any] = {}
    """Fields of the run spec that hold for every run here unless the spec says otherwise."""
