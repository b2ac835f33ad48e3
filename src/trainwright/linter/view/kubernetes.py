"""Read the training job out of a Kubernetes object: its pod groups, what its operator injects, and its nodes.

Takes a KubernetesObject of a kind in facts/kinds.json; gives a TrainingJob. All paths of kinds are in the facts; what
an operator does beyond running pods is here, one function per operator.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts import kinds
from trainwright.linter.documents import KubernetesObject, ScriptDocument
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.shell.chain import Resolve, launches
from trainwright.linter.shell.walk import walk_script
from trainwright.linter.shell.words import Variable
from trainwright.linter.text import Text
from trainwright.linter.values import Absent, Known, Unknown, Value
from trainwright.linter.view.job import JobLaunch, TrainingJob
from trainwright.linter.view.pods import Container, PodGroup
from trainwright.linter.view.script import accelerate_config

_ROLES = {"Launcher": "launcher", "launcher": "launcher"}
_TORCH = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PYTHONUNBUFFERED")
_PET = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")

_ELASTIC = ("PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", "PET_RDZV_ID", "PET_RDZV_CONF", "PET_MAX_RESTARTS")
"""What the training operator adds for an elasticPolicy."""


def read_object(found: KubernetesObject, project: Project) -> TrainingJob | None:
    """The job of one object; None when its kind starts no pods."""
    kind = kinds.get(found.kind, found.group)
    if kind is None or not kind.pods:
        if found.kind == "TrainJob":
            return _train_job(found, project)
        return None
    frontend = "VolcanoJob" if kind.group == "batch.volcano.sh" else kind.name
    job = TrainingJob(frontend, found, ends=kind.runs != "forever")
    resolve = _resolver(found, project)
    for path in kind.pods:
        for name, entry in _entries(found.node, path.each):
            template = entry.get(*path.template)
            if path.template and not template.exists:
                continue
            label = entry.get(*path.name).string if path.name else name
            role = path.role or _role(frontend, label or "")
            injected = _injected(frontend, found)
            group = PodGroup(label or "", role, _product(entry, path.count), template, entry, injected, resolve)
            job.groups.append(group)
    _nodes(job)
    _add_launches(job, project)
    if frontend == "RayJob":
        _ray_entrypoint(job, project, resolve)
    return job


def _entries(node: Node, each: tuple[str, ...]) -> Iterator[tuple[str, Node]]:
    if not each:
        yield "", node
        return
    listed = node.get(*each)
    for element in listed.elements():
        yield "", element
    for key, value in listed.pairs():
        yield key.raw, value


def _product(entry: Node, paths: tuple[tuple[str, ...], ...]) -> Value[int]:
    """How many pods: the product of counts; a missing count is one."""
    total, place = 1, entry.mark
    for path in paths:
        value = entry.get(*path).as_integer()
        if isinstance(value, Unknown):
            return value
        if isinstance(value, Known):
            total *= max(0, min(value.value, 1_000_000))
            place = value.span
    return Known(total, place)


def _role(frontend: str, name: str) -> str:
    if frontend == "MPIJob":
        return _ROLES.get(name, "worker")
    if frontend in ("TrainingRuntime", "ClusterTrainingRuntime"):
        return {"launcher": "launcher", "node": "worker"}.get(name, "")
    return (
        "worker"
        if frontend != "VolcanoJob" or name.lower() in ("master", "worker", "mpiworker", "trainer", "train", "node")
        else ""
    )


def _injected(frontend: str, found: KubernetesObject) -> dict[str, Variable]:
    """Environment variables that the operator or controller adds to every container."""
    names: tuple[str, ...] = ()
    if frontend == "PyTorchJob":
        names = (*_TORCH, *_PET)
        if found.get("spec", "elasticPolicy").exists:
            names += _ELASTIC
    elif frontend == "VolcanoJob":
        plugins = found.get("spec", "plugins")
        if plugins.get("pytorch").type != "absent":
            names += _TORCH
        if plugins.get("env").type != "absent":
            names += ("VK_TASK_INDEX", "VC_TASK_INDEX")
        if plugins.get("svc").type != "absent":
            tasks = [t.get("name").string or "" for t in found.get("spec", "tasks").elements()]
            names += tuple(f"VC_{t.upper().replace('-', '_')}_{part}" for t in tasks for part in ("HOSTS", "NUM"))
    elif frontend in ("Job", "JobSet"):
        mode = found.get("spec", "completionMode").string
        if frontend == "JobSet" or mode == "Indexed":
            names = ("JOB_COMPLETION_INDEX",)
    elif frontend == "LeaderWorkerSet":
        names = ("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX")
    return {name: Variable(name, exported=True, origin="operator") for name in names}


def _nodes(job: TrainingJob) -> None:
    """Nodes (worker pods) of the job, and slots per node for MPI."""
    workers = (
        [g for g in job.groups if g.role == "worker"]
        if job.frontend in ("MPIJob", "VolcanoJob", "RayJob", "RayCluster")
        else job.workers
    )
    total = 0
    place = workers[0].count.span if workers else job.top
    for group in workers:
        if group.count.known is None:
            job.nodes = group.count
            break
        total += group.count.known
        place = group.count.span
    else:
        job.nodes = Known(total, place) if workers else Unknown(job.top)
    if job.frontend == "MPIJob":
        slots = job.get("spec", "slotsPerWorker").as_integer()
        job.slots = Known(1, slots.span) if isinstance(slots, Absent) else slots


def _add_launches(job: TrainingJob, project: Project) -> None:
    for group in job.groups:
        for container, launch in group.launches():
            found = JobLaunch(job, launch, group, container)
            found.config = accelerate_config(found, project)
            job._launches.append(found)


def _ray_entrypoint(job: TrainingJob, project: Project, resolve: Resolve) -> None:
    """``spec.entrypoint`` is a shell command that runs beside the head and starts workers everywhere."""
    entrypoint = job.get("spec", "entrypoint")
    head = next((group for group in job.groups if group.role == "head"), None)
    if not entrypoint.raw or head is None:
        return
    container = head.main_containers[0] if head.main_containers else None
    script = walk_script(entrypoint.as_text(), container.env if container else {}, "pod")
    for command in script.commands:
        if "substitution" not in command.context:
            for launch in launches(command, resolve):
                job._launches.append(JobLaunch(job, launch, head, container))


def _resolver(found: KubernetesObject, project: Project) -> Resolve:
    """Finds the text of a script that a container runs: usually an entry of a ConfigMap."""

    def resolve(name: str) -> Text | None:
        document = project.file(name, found)
        return document.text if isinstance(document, ScriptDocument) else None

    return resolve


def _train_job(found: KubernetesObject, project: Project) -> TrainingJob:
    """A TrainJob: its runtime's node template with the trainer's overrides."""
    trainer = found.get("spec", "trainer")
    reference = found.get("spec", "runtimeRef")
    kind = reference.get("kind").string or "ClusterTrainingRuntime"
    runtime = project.find(found, kind, reference.get("name").string, found.namespace)
    job = TrainingJob("TrainJob", found, runtime=runtime)
    template, base, policy = Node(found.text, 0, 0, "absent"), None, None
    if runtime is not None:
        policy = runtime.get("spec", "mlPolicy")
        for element in runtime.get("spec", "template", "spec", "replicatedJobs").elements():
            if element.get("name").string in ("node", "trainer-node"):
                template = element.get("template", "spec", "template")
                base = template.get("spec", "containers").named("node")
                break
    nodes = trainer.get("numNodes").as_integer()
    if isinstance(nodes, Absent) and policy is not None:
        nodes = policy.get("numNodes").as_integer()
    job.nodes = Known(1, nodes.span) if isinstance(nodes, Absent) and runtime is not None else nodes
    injected = {name: Variable(name, exported=True, origin="operator") for name in _PET}
    group = PodGroup("node", "worker", job.nodes, template, trainer, injected, _resolver(found, project))
    per_node = trainer.get("resourcesPerNode")
    resources = per_node if per_node.exists else (base.get("resources") if base is not None else per_node)
    command, args = trainer.get("command"), trainer.get("args")
    main = Container(
        base if base is not None and base.exists else trainer, group, resources=resources,
        command_node=command if command.exists or base is None else base.get("command"),
        args_node=args if args.exists or base is None else base.get("args"),
        extra_env=(trainer.get("env"),), resolve=group.resolve,
    )  # fmt: skip
    group.containers = [c for c in group.containers if c.name != "node"] + [main]
    job.groups.append(group)
    slots = trainer.get("numProcPerNode").as_integer()
    if isinstance(slots, Absent) and policy is not None:
        for framework in ("torch", "mpi"):
            if policy.get(framework).type == "mapping":
                slots = policy.get(framework, "numProcPerNode").as_integer()
    job.slots = slots
    _add_launches(job, project)
    return job
