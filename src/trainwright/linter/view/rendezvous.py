"""Where the processes of a launch meet, and who each node believes it is, whatever launcher is told so.

Takes a JobLaunch; gives the words that say the host, the port and the node's rank. Rules on rendezvous read this, so
that torchrun, Accelerate, DeepSpeed and plain ``env://`` scripts are one case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.linter.node import Node
from trainwright.linter.shell.words import Command, Reference, Word
from trainwright.linter.text import PLACEHOLDER
from trainwright.linter.values import Absent, Value
from trainwright.linter.view.job import JobLaunch

_HOSTS = ("rdzv_endpoint", "master_addr", "main_process_ip")
_PORTS = ("master_port", "main_process_port")
_ARGUMENTS = ("dist_url", "init_method", "dist_init_method", "master_addr", "master_address", "dist_backend_url")


@dataclass(frozen=True)
class Meeting:
    """One word that names the meeting point, and what carries it ("--rdzv_endpoint", "MASTER_ADDR", …)."""

    option: str
    word: Word

    @property
    def host(self) -> str | None:
        """The host without scheme and port; None when it is not known. "" when only a port is written."""
        text = self.word.expanded.strip()
        text = text.split("://", 1)[-1]
        if text.startswith("["):
            text = text[1:].split("]", 1)[0]
        elif text.count(":") == 1:
            text = text.split(":", 1)[0]
        return None if PLACEHOLDER in text else text.strip().lower()


def nodes_at_least_two(launch: JobLaunch) -> int | None:
    """Nodes of a launch that certainly spans several; None otherwise. A launcher's own number counts too,
    and its default is one: nodes that were not told of each other do not meet."""
    nodes, told = launch.nodes.known, launch.nnodes.known
    if isinstance(launch.nnodes, Absent) and launch.tool in ("torchrun", "accelerate"):
        return None
    if nodes is not None and nodes > 1:
        return nodes if told is None or told > 1 else None
    return told if told is not None and told > 1 else None


def host(launch: JobLaunch) -> Meeting | None:
    """The host that the processes meet at: the launcher's own option first, then what its environment says."""
    if launch.tool == "torchrun":
        static = launch.rendezvous_backend == "static"
        names: tuple[str, ...] = ("rdzv_endpoint", "master_addr") if static else ("rdzv_endpoint",)
        return _option(launch, names) or _variable(launch, tuple(f"PET_{name.upper()}" for name in names))
    if launch.tool == "accelerate":
        return _option(launch, ("main_process_ip",)) or _configured(launch, "main_process_ip")
    if launch.tool == "deepspeed":
        return _option(launch, ("master_addr",)) or _variable(launch, ("MASTER_ADDR",))
    return _argument(launch) or _variable(launch, ("MASTER_ADDR",))


def port(launch: JobLaunch) -> Meeting | None:
    """The word that holds the port; an endpoint holds both."""
    found = _option(launch, _PORTS) or _configured(launch, "main_process_port")
    if found is not None:
        return found
    meeting = host(launch)
    if meeting is not None and ":" in meeting.word.expanded.split("://", 1)[-1]:
        return meeting
    return _variable(launch, ("PET_MASTER_PORT",) if launch.tool == "torchrun" else ("MASTER_PORT",))


def node_rank(launch: JobLaunch) -> Value[str]:
    """What the launcher is told about the node's rank."""
    return launch.setting("machine_rank") if launch.tool == "accelerate" else launch.setting("node_rank")


def is_static(launch: JobLaunch) -> bool:
    """Whether ranks come from outside: the default back end of torchrun and Accelerate, or DeepSpeed without ssh."""
    if launch.tool == "deepspeed":
        return launch.flags.has("no_ssh")
    if launch.tool == "accelerate" and _deepspeed_by_ssh(launch):
        return False
    return launch.tool in ("torchrun", "accelerate") and launch.rendezvous_backend == "static"


def _deepspeed_by_ssh(launch: JobLaunch) -> bool:
    """Accelerate with DeepSpeed starts the other machines itself, by pdsh, unless told "standard"."""
    chosen = launch.flags.text("deepspeed_multinode_launcher").known
    if chosen is None and launch.config is not None:
        chosen = launch.config.get("deepspeed_config", "deepspeed_multinode_launcher").string
    kind = launch.config.get("distributed_type").string if launch.config is not None else None
    uses = launch.flags.has("use_deepspeed", "deepspeed_config_file") or kind == "DEEPSPEED"
    return uses and chosen != "standard"


def by_each_task(meeting: Meeting) -> Iterator[Reference | Command]:
    """What of a word every task or pod computes for itself rather than once for all."""
    for command in meeting.word.all_substitutions():
        if command.shell in ("task", "pod"):
            yield command
    for reference in meeting.word.all_references():
        if reference.shell in ("task", "pod", "kubernetes"):
            yield reference


def _option(launch: JobLaunch, names: tuple[str, ...]) -> Meeting | None:
    for name in names:
        flag = launch.flags.find(name)
        if flag is not None and flag.value is not None:
            return Meeting(f"--{name}", flag.value)
    return None


def _argument(launch: JobLaunch) -> Meeting | None:
    for name in _ARGUMENTS:
        flag = launch.arguments.find(name)
        if flag is not None and flag.value is not None and (name == "master_addr" or "://" in flag.value.expanded):
            return Meeting(f"--{name}", flag.value)
    return None


def _configured(launch: JobLaunch, name: str) -> Meeting | None:
    if launch.tool != "accelerate" or launch.config is None:
        return None
    node: Node = launch.config.get(name)
    if not node.exists or isinstance(node.as_string(), Absent):
        return None
    return Meeting(name, Word(node.span, node.string if node.string is not None else PLACEHOLDER))


def _variable(launch: JobLaunch, names: tuple[str, ...]) -> Meeting | None:
    for name in names:
        variable = launch.env(name)
        if variable is None or variable.origin in ("operator", "slurm"):
            continue
        if len(variable.words) == 1:
            word = variable.words[0]
            return Meeting(name, word if variable.sure else Word(word.span, PLACEHOLDER, word.references))
        return Meeting(name, Word(variable.span, variable.expanded))
    return None
