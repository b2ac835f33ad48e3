"""The training job, whatever it was written in: who starts how many processes where, with which environment.

``TrainingJob`` and ``JobLaunch`` are what rules on launches, resources, networks, checkpoints and lifecycles read.
They are made by one reader per front-end (kubernetes.py, script.py). Nothing here knows YAML paths of a kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from trainwright.linter.documents import ConfigDocument, Document, KubernetesObject, ScriptDocument
from trainwright.linter.node import Node
from trainwright.linter.shell.chain import Invocation, Launch
from trainwright.linter.shell.flags import Flags
from trainwright.linter.shell.words import Variable, Word
from trainwright.linter.text import Span, Text
from trainwright.linter.values import Absent, Known, Unknown, Value, integer
from trainwright.linter.view.pods import NEURON_RESOURCES, Container, PodGroup
from trainwright.linter.view.slurm import Allocation

_NOWHERE = Span(Text("", ""), 0, 0)
CHECKPOINT_FLAGS = (
    "output_dir", "ckpt_dir", "checkpoint_dir", "checkpoints_dir", "checkpoint_path", "save_dir", "save",
        "ckpt_path",
    "checkpoint_folder", "save_folder", "storage_path", "checkpoint", "save_path", "default_root_dir",
    "checkpoint.folder",
    "trainer.default_root_dir", "resume_dir", "model_dir",
)  # fmt: skip


@dataclass(eq=False)
class JobLaunch:
    """One program that a job starts, with what surrounds it. For Kubernetes ``group`` and ``container`` say where."""

    job: TrainingJob
    launch: Launch
    group: PodGroup | None = None
    container: Container | None = None
    config: ConfigDocument | None = None

    @property
    def span(self) -> Span:
        """The launcher's name, where findings about the launch as a whole point."""
        step = self.launch.launcher or self.launch.program
        return step.name.span

    @cached_property
    def launcher(self) -> Invocation | None:
        """torchrun, accelerate, deepspeed or mpirun."""
        return self.launch.launcher

    @property
    def tool(self) -> str:
        """The launcher's name, "" when the program is started directly."""
        return self.launcher.tool if self.launcher else ""

    @property
    def flags(self) -> Flags:
        """The launcher's options (no options when there is none)."""
        return self.launcher.flags if self.launcher else Flags(place=self.span)

    @property
    def program(self) -> Invocation:
        """The training script with its own options."""
        return self.launch.program

    @property
    def arguments(self) -> Flags:
        """The training script's options."""
        return self.program.flags

    @property
    def srun(self) -> Invocation | None:
        """The ``srun`` that starts it, if any."""
        return self.launch.of("srun")

    def env(self, name: str) -> Variable | None:
        """A variable in the program's environment, whoever set it."""
        return self.launch.environment(name)

    # -- how many copies are started, and where
    # ----------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> Value[int]:
        """Nodes (or worker pods) that take part: where the command itself, or what it starts, runs."""
        if self.group is not None:
            # Worker groups (Master and Worker, master and worker tasks) train together; a launcher starts them all.
            return self.job.nodes if self.job.spreads(self.group) or self.group.role == "worker" else self.group.count
        allocation = self.job.slurm
        step = self.srun
        if step is not None:
            own = step.flags.number("nodes")
            if not isinstance(own, Absent):
                return own
            if step.flags.has("nodelist", "relative") and not step.flags.has("ntasks"):
                return Unknown(step.name.span)
            if step.flags.number("ntasks").known == 1:
                return Known(1, step.name.span)
            return allocation.node_count if allocation is not None else Unknown(step.name.span)
        if self.tool == "mpirun":
            total, each = self.flags.number("np").known, self.flags.number("npernode").known
            if allocation is None and total and each and total % each == 0:
                return Known(total // each, self.span)
            return allocation.node_count if allocation is not None else Unknown(self.span)
        if allocation is not None:
            if "background" in self.launch.context or "loop" in self.launch.context:
                return Unknown(self.span)
            return Known(1, self.span)
        return Unknown(self.span)

    @cached_property
    def copies_per_node(self) -> Value[int]:
        """How many times the command is started on each node (srun tasks); 1 without srun."""
        step = self.srun
        if step is None or self.group is not None:
            return Known(1, self.span)
        own = step.flags.number("ntasks_per_node")
        if not isinstance(own, Absent):
            return own
        total = step.flags.number("ntasks")
        if not isinstance(total, Absent):
            nodes = self.nodes.known
            if total.known is not None and nodes and total.known % nodes == 0:
                return Known(total.known // nodes, total.span)
            return Unknown(total.span)
        return self.job.slurm.tasks_per_node if self.job.slurm is not None else Unknown(step.name.span)

    # -- what the launcher is told
    # --------------------------------------------------------------------------------------------

    def setting(self, *names: str) -> Value[str]:
        """A launcher setting: its option, else ``PET_*`` (torchrun), else the Accelerate config file it names."""
        found = self.flags.text(*names)
        if not isinstance(found, Absent):
            return found
        if self.tool == "torchrun":
            for name in names:
                variable = self.env(f"PET_{name.upper()}")
                if variable is not None:
                    stated = self.job.get("spec", "nprocPerNode") if name == "nproc_per_node" else None
                    if stated is not None and stated.exists and self.job.frontend == "PyTorchJob":
                        return Known(stated.raw, stated.span) if not stated.unknown else Unknown(stated.span)
                    return variable.value if variable.place else Unknown(self.span)
            if self.container is not None and self.container.env_open:
                return Unknown(self.span)
        if self.tool == "accelerate":
            if self.config is not None:
                for name in names:
                    node = self.config.get(name)
                    if node.exists:
                        return node.as_string()
            elif self.flags.has("config_file"):
                return Unknown(self.flags.find("config_file").span)  # type: ignore[union-attr]
        return Absent(self.span)

    def _count(self, *names: str) -> Value[int]:
        text = self.setting(*names)
        if isinstance(text, Known):
            number = integer(text.value)
            return Unknown(text.span, text.value) if number is None else Known(number, text.span)
        return text

    @cached_property
    def nnodes(self) -> Value[int]:
        """Nodes that the launcher expects; Absent means its default, one. An elastic range is Unknown."""
        if self.flags.switch("standalone").known:
            return Known(1, self.flags.find("standalone").span)  # type: ignore[union-attr]
        if self.tool == "accelerate":
            return self._count("num_machines")
        return self._count("nnodes")

    @cached_property
    def processes_per_node(self) -> Value[int]:
        """Processes that one copy of the command starts; 1 for a program started directly."""
        if self.tool == "accelerate":
            total, machines = self._count("num_processes"), self.nnodes
            if isinstance(total, Known):
                count = 1 if isinstance(machines, Absent) else machines.known
                if count and total.value % count == 0:
                    return Known(total.value // count, total.span)
                return Unknown(total.span)
            return total if isinstance(total, Unknown) else Absent(self.span)
        if self.tool in ("torchrun", "deepspeed"):
            return self._count("nproc_per_node")
        if self.tool == "mpirun":
            return self.job.slots if self.group is not None else Unknown(self.span)
        return Known(1, self.span)

    @cached_property
    def world_size(self) -> Value[int]:
        """All processes of the training run, as the launcher counts them."""
        if self.tool == "accelerate":
            return self._count("num_processes")
        if self.tool == "mpirun":
            return self.flags.number("np")
        per_node = self.processes_per_node
        if self.tool in ("torchrun", "deepspeed"):
            nodes = 1 if isinstance(self.nnodes, Absent) and self.tool == "torchrun" else self.nnodes.known
        else:
            nodes, copies = self.nodes.known, self.copies_per_node.known
            return Known(nodes * copies, self.copies_per_node.span) if nodes and copies else Unknown(self.span)
        if isinstance(per_node, Absent) and self.tool == "torchrun":
            per_node = Known(1, per_node.span)
        if per_node.known is not None and nodes is not None:
            return Known(per_node.known * nodes, per_node.span)
        return Unknown(per_node.span)

    @property
    def rendezvous_backend(self) -> str | None:
        """torchrun's backend: "static" (its default), "c10d", …; None when unknown."""
        if self.flags.switch("standalone").known:
            return "c10d"
        value = self.setting("rdzv_backend")
        return "static" if isinstance(value, Absent) else value.known

    def rendezvous(self, *names: str) -> Word | None:
        """The word of a rendezvous option (``rdzv_endpoint``, ``master_addr``, ``main_process_ip``) for its origins;
        falls back on the environment variable of the same name in capitals."""
        flag = self.flags.find(*names)
        if flag is not None:
            return flag.value
        for name in names:
            variable = self.env(name.upper())
            if variable is not None and len(variable.words) == 1:
                return variable.words[0]
        return None

    # -- accelerators
    # ------------------------------------------------------------------------------------------------------------

    @cached_property
    def accelerators_per_node(self) -> Value[int]:
        """Accelerators that the command can see on each node."""
        if self.container is not None and self.group is not None:
            if self.job.spreads(self.group):
                return self.job.accelerators_per_node
            return self.container.accelerators
        return self.job.accelerators_per_node

    @property
    def is_neuron(self) -> bool:
        """Whether the accelerators are Neuron devices or cores."""
        return self.job.accelerator in NEURON_RESOURCES

    @cached_property
    def checkpoint_path(self) -> Known[str] | None:
        """Where the program is told to save, when an option says so."""
        for name in CHECKPOINT_FLAGS:
            value = self.arguments.text(name)
            if isinstance(value, Known) and value.value.strip():
                return value
        return None


@dataclass(eq=False)
class TrainingJob:
    """One job. ``frontend`` is the kind ("PyTorchJob", "Job.batch.volcano.sh" as "VolcanoJob"), "sbatch"
    or "shell".
    """

    frontend: str
    document: Document
    groups: list[PodGroup] = field(default_factory=list)
    slurm: Allocation | None = None
    nodes: Value[int] = field(default_factory=lambda: Unknown(_NOWHERE))
    slots: Value[int] = field(default_factory=lambda: Unknown(_NOWHERE))
    runtime: KubernetesObject | None = None
    ends: bool = True
    _launches: list[JobLaunch] = field(default_factory=list)

    @property
    def object(self) -> KubernetesObject | None:
        """The Kubernetes object, if it is one."""
        return self.document if isinstance(self.document, KubernetesObject) else None

    @property
    def script(self) -> ScriptDocument | None:
        """The script, if it is one."""
        return self.document if isinstance(self.document, ScriptDocument) else None

    @property
    def top(self) -> Span:
        """Its name: where a finding about the job as a whole points."""
        return self.document.top

    def get(self, *path: str | int) -> Node:
        """A node of the Kubernetes object (an absent Node for scripts)."""
        from trainwright.linter.node import absent_node

        return self.object.get(*path) if self.object else absent_node(self.document.text)

    @cached_property
    def launches(self) -> list[JobLaunch]:
        """Programs it starts, without bookkeeping commands (echo, mkdir, cd, …)."""
        return [launch for launch in self._launches if launch.launch.script not in BOOKKEEPING or launch.launcher]

    @cached_property
    def training_launches(self) -> list[JobLaunch]:
        """Those of ``launches`` that start training: a launcher, or Python code on accelerators."""
        return [
            launch
            for launch in self.launches
            if launch.tool or (launch.launch.is_python and launch.launch.of("python") and self.accelerated)
        ]

    @cached_property
    def workers(self) -> list[PodGroup]:
        """Pod groups whose containers ask for accelerators; all groups when none does."""
        return [g for g in self.groups if g.accelerated and g.role != "launcher"] or [
            g for g in self.groups if g.role not in ("launcher", "head", "submitter")
        ]  # fmt: skip

    @property
    def accelerated(self) -> bool:
        """Whether it asks for accelerators at all."""
        return self.accelerator is not None

    @cached_property
    def accelerator(self) -> str | None:
        """The accelerator resource its workers ask for; "gpu" for a Slurm allocation with GPUs."""
        for group in self.groups:
            for container in group.accelerated:
                return container.accelerator
        if self.slurm is not None and not isinstance(self.slurm.gpus_per_node, Absent):
            return "gpu"
        return None

    @cached_property
    def accelerators_per_node(self) -> Value[int]:
        """Accelerators of each worker pod or node."""
        if self.slurm is not None:
            return self.slurm.gpus_per_node
        found = [g.accelerators for g in self.workers]
        known = {value.known for value in found}
        return found[0] if len(known) == 1 and found else Unknown(self.top)

    @property
    def multi_node(self) -> bool:
        """Whether it certainly uses more than one node."""
        return (self.nodes.known or 0) > 1

    def spreads(self, group: PodGroup) -> bool:
        """Whether commands of this group start processes on all workers (MPI launcher, Ray head)."""
        return group.role in ("launcher", "head", "submitter")

    def containers(self) -> Iterator[Container]:
        """Ordinary containers of all groups."""
        for group in self.groups:
            yield from group.main_containers

    def env_uses(self, *names: str) -> Iterator[Variable]:
        """Every place where one of these variables is set for its processes, each place once."""
        seen: set[tuple[int, int]] = set()
        sources: list[dict[str, Variable]] = [dict(c.env) for c in self.containers()]
        sources += [dict(launch.launch.variables) for launch in self._launches]
        for variables in sources:
            for name in names:
                variable = variables.get(name)
                if variable is None or variable.place is None or variable.origin in ("operator", "slurm"):
                    continue
                place = (id(variable.place.text.root()), variable.place.start)
                if place not in seen and (variable.exported or variable.origin == "kubernetes"):
                    seen.add(place)
                    yield variable


BOOKKEEPING = frozenset({
    "echo", "mkdir", "cd", "export", "set", "source", ".", "module", "printf", "sleep", "date", "hostname",
        "nvidia-smi", "cat",
    "ls", "true", "false", "wait", "trap", "rm", "cp", "mv", "chmod", "ulimit", "conda", "test", "[", "exit",
        "unset", "eval",
    "pwd", "env", "which", "return", "shift", "read", "tee", "head", "tail", "awk", "sed", "grep", "cut",
        "sort", "uniq", "wc",
    "scontrol", "tr", "touch", "ln", "local", "declare", "kill", "umask", "pip", "pip3", "apt-get", "apt",
        "yum", "dnf", "curl",
    "wget", "git", "aws", "",
})  # fmt: skip
