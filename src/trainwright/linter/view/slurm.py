"""What Slurm allocates for a script: nodes, tasks, CPUs, GPUs, time and signals, from its ``#SBATCH`` lines.

Takes Directives; gives an Allocation and the ``SLURM_*`` variables that the script sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from trainwright.linter.shell.flags import Flag, Flags
from trainwright.linter.shell.sbatch import Directives
from trainwright.linter.shell.words import Variable
from trainwright.linter.text import Span
from trainwright.linter.values import Absent, Known, Unknown, Value, slurm_megabytes, slurm_minutes


@dataclass(eq=False)
class Allocation:
    """One Slurm allocation. Values that are not written are Absent, with the place of the last directive."""

    directives: Directives

    @property
    def flags(self) -> Flags:
        """The directives as options by long name ("gpus_per_node")."""
        return self.directives.flags

    @cached_property
    def nodes(self) -> Value[int]:
        """``--nodes``; a range ("2-4") is Unknown."""
        return self.flags.number("nodes")

    @cached_property
    def node_count(self) -> Value[int]:
        """Nodes as Slurm will count them: ``--nodes``, else one when the tasks fit on one by default."""
        if not isinstance(self.nodes, Absent):
            return self.nodes
        if not self.flags.used:
            return Unknown(self.nodes.span)
        if self.flags.has("ntasks", "nodelist", "nodefile", "gpus", "array", "exclusive") and not self.flags.has(
            "ntasks_per_node"
        ):
            return Known(1, self.nodes.span) if self.ntasks.known == 1 else Unknown(self.nodes.span)
        return Known(1, self.nodes.span)

    @cached_property
    def ntasks(self) -> Value[int]:
        """``--ntasks``."""
        return self.flags.number("ntasks")

    @cached_property
    def ntasks_per_node(self) -> Value[int]:
        """``--ntasks-per-node``."""
        return self.flags.number("ntasks_per_node")

    @cached_property
    def tasks_per_node(self) -> Value[int]:
        """Tasks that ``srun`` starts on each node without options of its own."""
        if isinstance(self.ntasks, Known):
            nodes = self.node_count.known
            if nodes and self.ntasks.value % nodes == 0:
                return Known(self.ntasks.value // nodes, self.ntasks.span)
            return Unknown(self.ntasks.span)
        if not isinstance(self.ntasks_per_node, Absent):
            return self.ntasks_per_node
        if self.flags.has("gpus_per_task", "ntasks_per_gpu", "ntasks_per_socket", "ntasks"):
            return Unknown(self.ntasks.span)
        return Known(1, self.ntasks_per_node.span)

    @cached_property
    def cpus_per_task(self) -> Value[int]:
        """``--cpus-per-task``."""
        return self.flags.number("cpus_per_task")

    @cached_property
    def gpus_per_node(self) -> Value[int]:
        """GPUs of each node, from ``--gpus-per-node``, ``--gres=gpu:…``, ``--gpus`` or ``--gpus-per-task``."""
        for name in ("gpus_per_node", "gres"):
            flag = self.flags.find(name)
            if flag is None:
                continue
            count = gpu_count(flag, gres=name == "gres")
            if not isinstance(count, Absent):
                return count
        total = self.flags.find("gpus")
        if total is not None:
            all_gpus, nodes = gpu_count(total, gres=False).known, self.node_count.known
            if all_gpus is not None and nodes and all_gpus % nodes == 0:
                return Known(all_gpus // nodes, total.span)
            return Unknown(total.span)
        per_task = self.flags.find("gpus_per_task")
        if per_task is not None:
            each, tasks = gpu_count(per_task, gres=False).known, self.tasks_per_node.known
            return Known(each * tasks, per_task.span) if each is not None and tasks else Unknown(per_task.span)
        return Absent(self.place)

    @property
    def exclusive(self) -> bool:
        """Whether it has its nodes to itself."""
        return self.flags.has("exclusive")

    @property
    def minutes(self) -> Value[float]:
        """``--time`` in minutes."""
        text = self.flags.text("time")
        found = slurm_minutes(text.known) if text.known is not None else None
        return (
            Known(found, text.span)
            if found is not None
            else (text if not isinstance(text, Known) else Unknown(text.span))
        )

    @property
    def megabytes(self) -> Value[float]:
        """``--mem`` in MiB per node (0: all of it)."""
        text = self.flags.text("mem")
        found = slurm_megabytes(text.known) if text.known is not None else None
        return (
            Known(found, text.span)
            if found is not None
            else (text if not isinstance(text, Known) else Unknown(text.span))
        )

    @property
    def place(self) -> Span:
        """Where a missing directive would go."""
        assert self.directives.place is not None
        return self.directives.place

    def variables(self) -> dict[str, Variable]:
        """``SLURM_*`` as the batch script sees them, with the value that the directives fix."""
        known: dict[str, Value[int]] = {
            "SLURM_NNODES": self.node_count, "SLURM_JOB_NUM_NODES": self.node_count,
            "SLURM_NTASKS": self.ntasks, "SLURM_NPROCS": self.ntasks, "SLURM_NTASKS_PER_NODE": self.ntasks_per_node,
            "SLURM_CPUS_PER_TASK": self.cpus_per_task, "SLURM_GPUS_ON_NODE": self.gpus_per_node,
            "SLURM_GPUS_PER_NODE": self.gpus_per_node,
        }  # fmt: skip
        if not isinstance(self.ntasks, Known):
            nodes, per_node = self.node_count.known, self.tasks_per_node.known
            if nodes is not None and per_node is not None:
                total: Value[int] = Known(nodes * per_node, self.tasks_per_node.span)
                known["SLURM_NTASKS"] = known["SLURM_NPROCS"] = total
        found = {name: Variable(name, exported=True, origin="slurm") for name in _OTHERS}
        for name, value in known.items():
            text = str(value.known) if value.known is not None else None
            found[name] = Variable(name, (), True, "slurm", text is not None, text=text, place=value.span)
        return found


_OTHERS = (
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_NODEID", "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SUBMIT_DIR", "SLURM_JOB_NAME", "SLURM_JOB_GPUS",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_CPUS_ON_NODE", "SLURM_TASKS_PER_NODE",
    "SLURM_SUBMIT_HOST",
    "SLURM_TMPDIR", "SLURM_GPUS", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES", "SLURMD_NODENAME",
    "SLURM_CLUSTER_NAME",
    "SLURM_JOB_PARTITION", "SLURM_JOB_CPUS_PER_NODE", "SLURM_MEM_PER_NODE", "SLURM_GTIDS",
    "SLURM_TOPOLOGY_ADDR",
)  # fmt: skip


def gpu_count(flag: Flag, *, gres: bool) -> Value[int]:
    """GPUs in "gpu:a100:8", "a100:8", "8" or a comma list; Absent when a ``--gres`` names no GPU."""
    if flag.value is None:
        return Unknown(flag.span)
    total, seen = 0, False
    for part in flag.value.expanded.split(","):
        if gres and not re.match(r"(gres[:/])?gpu\b", part):
            continue
        seen = True
        tail = part.split("(")[0].rsplit(":", 1)[-1].rsplit("=", 1)[-1]
        if tail.isdigit() and len(tail) < 7:
            total += int(tail)
        elif gres and re.fullmatch(r"(gres[:/])?gpu", part):
            total += 1
        else:
            return Unknown(flag.span)
    return Known(total, flag.span) if seen else Absent(flag.span)
