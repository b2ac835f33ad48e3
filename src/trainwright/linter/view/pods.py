"""Pods, containers and volumes as the scheduler and the kubelet will see them, each value with its place.

Takes the nodes of one pod template; gives a PodGroup: so many pods made from one template. Kinds are not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trainwright.linter.node import Node
from trainwright.linter.shell.chain import Launch, Resolve, launches
from trainwright.linter.shell.expansion import Script
from trainwright.linter.shell.walk import walk_script
from trainwright.linter.shell.words import Command, Reference, Variable, Word, inner_text
from trainwright.linter.text import PLACEHOLDER, Span
from trainwright.linter.values import Absent, Known, Unknown, Value

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi")
NEURON_RESOURCES = ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice", "aws.amazon.com/neuroncore")
EFA = "vpc.amazonaws.com/efa"


def is_extended(resource: str) -> bool:
    """Whether a resource is one that cannot be overcommitted: a device plugin's, or huge pages."""
    domain, slash, _ = resource.partition("/")
    return resource.startswith("hugepages-") or (bool(slash) and not domain.endswith("kubernetes.io"))


@dataclass(frozen=True)
class Volume:
    """One volume of a pod. ``kind`` is emptyDir, hostPath, persistentVolumeClaim, ephemeral, configMap, secret, …"""

    name: str
    kind: str
    node: Node = field(repr=False)

    @property
    def source(self) -> Node:
        """The node below the kind (``emptyDir: {…}``)."""
        return self.node.get(self.kind)

    @property
    def in_memory(self) -> bool:
        """A tmpfs: counts against the container's memory limit and vanishes with the pod."""
        return self.kind == "emptyDir" and self.source.get("medium").string == "Memory"

    @property
    def claim(self) -> str | None:
        """The claim's name, for a persistentVolumeClaim."""
        return self.source.get("claimName").string if self.kind == "persistentVolumeClaim" else None

    @property
    def survives(self) -> bool:
        """Whether what is written there outlives the pod and is reachable from another node."""
        return self.kind not in (
            "emptyDir",
            "hostPath",
            "configMap",
            "secret",
            "downwardAPI",
            "projected",
            "image",
            "ephemeral",
        )


@dataclass(frozen=True)
class Mount:
    """One volumeMount; ``volume`` is None when the pod declares no such volume."""

    path: str
    volume: Volume | None
    node: Node = field(repr=False)


@dataclass(eq=False)
class Container:
    """One container. ``sidecar`` is a native one (an init container with restartPolicy Always)."""

    node: Node
    pod: PodGroup
    init: bool = False
    resources: Node | None = None
    command_node: Node | None = None
    args_node: Node | None = None
    extra_env: tuple[Node, ...] = ()
    resolve: Resolve | None = None

    @property
    def name(self) -> str:
        """Its name, "" when unknown."""
        return self.node.get("name").string or ""

    @property
    def image(self) -> Node:
        """``image``."""
        return self.node.get("image")

    @property
    def sidecar(self) -> bool:
        """A native sidecar."""
        return self.init and self.node.get("restartPolicy").string == "Always"

    # -- resources
    # -------------------------------------------------------------------------------------------------------

    @property
    def _resources(self) -> Node:
        return self.resources if self.resources is not None else self.node.get("resources")

    def asked(self, part: str) -> Node:
        """``resources.limits`` or ``resources.requests`` as written."""
        return self._resources.get(part)

    def limit(self, resource: str) -> Value[float]:
        """The limit as written."""
        return self._resources.get("limits", resource).as_quantity()

    def request(self, resource: str) -> Value[float]:
        """The effective request: as written, else the limit, as the API server defaults it."""
        written = self._resources.get("requests", resource).as_quantity()
        return self.limit(resource) if isinstance(written, Absent) else written

    @cached_property
    def accelerator(self) -> str | None:
        """The accelerator resource it asks for, in limits or requests; None when it asks for none."""
        for part in ("limits", "requests"):
            for key, _ in self._resources.get(part).pairs():
                name = key.raw
                if name in GPU_RESOURCES or name in NEURON_RESOURCES or name.startswith("nvidia.com/mig-"):
                    return name
        return None

    @cached_property
    def accelerators(self) -> Value[int]:
        """How many of ``accelerator`` it gets; Absent when it asks for none."""
        resource = self.accelerator
        if resource is None:
            node = self._resources
            return Unknown(node.mark) if node.unknown or node.open or node.get("limits").open else Absent(node.mark)
        found = self.limit(resource)
        if isinstance(found, Absent):
            found = self.request(resource)
        if isinstance(found, Known):
            return Known(int(found.value), found.span) if found.value == int(found.value) else Unknown(found.span)
        return found

    # -- volumes
    # ---------------------------------------------------------------------------------------------------------

    @cached_property
    def mounts(self) -> tuple[Mount, ...]:
        """Its volume mounts."""
        return tuple(
            Mount(
                (m.get("mountPath").string or "").rstrip("/") or "/",
                self.pod.volumes.get(m.get("name").string or ""),
                m,
            )
            for m in self.node.get("volumeMounts").elements()
            if m.get("mountPath").string
        )

    def mount_of(self, path: str) -> Mount | None:
        """The mount that holds an absolute path (the longest that is a prefix of it)."""
        clean = path.rstrip("/") or "/"
        held = [m for m in self.mounts if clean == m.path or clean.startswith(m.path.rstrip("/") + "/")]
        return max(held, key=lambda mount: len(mount.path), default=None)

    # -- environment and commands
    # ------------------------------------------------------------------------------------------

    @cached_property
    def env(self) -> dict[str, Variable]:
        """Its environment: ``env`` entries (a ``valueFrom`` has no known value) and what an operator injects."""
        found: dict[str, Variable] = dict(self.pod.injected)
        for entry in (*self.node.get("env").elements(), *(e for node in self.extra_env for e in node.elements())):
            name = entry.get("name").string
            if name is None:
                continue
            value = entry.get("value")
            if value.exists:
                word = kubernetes_word(value, found)
                found[name] = Variable(name, (word,), exported=True, origin="kubernetes", place=value.span)
            elif entry.get("valueFrom").exists or value.unknown:
                found[name] = Variable(name, (), exported=True, origin="kubernetes", place=entry.get("name").span)
            else:
                found[name] = Variable(name, (), True, "kubernetes", text="", place=entry.get("name").span)
        return found

    @property
    def env_open(self) -> bool:
        """Whether more variables may come from ``envFrom`` or a template."""
        return self.node.get("envFrom").exists or self.node.open or self.node.get("env").open

    def env_node(self, name: str) -> Node:
        """The entry of ``env`` for a variable (absent Node when there is none)."""
        return self.node.get("env").named(name)

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """``command`` and ``args`` as words."""
        command = self.command_node if self.command_node is not None else self.node.get("command")
        args = self.args_node if self.args_node is not None else self.node.get("args")
        nodes = [
            *(command.elements() or ([command] if command.raw else [])),
            *(args.elements() or ([args] if args.raw else [])),
        ]
        return tuple(kubernetes_word(node, self.env) for node in nodes)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Every program that its command starts."""
        if not self.words:
            return ()
        first, last = self.words[0].span, self.words[-1].span
        span = Span(first.text, first.start, max(first.end, last.end)) if first.text is last.text else first
        command = Command(self.words, span, self.env, shell="pod")
        return tuple(launches(command, self.resolve))

    @cached_property
    def script(self) -> Script | None:
        """The script behind ``sh -c``, when that is how it starts."""
        for number, word in enumerate(self.words[:-1]):
            if (
                word.expanded.startswith("-")
                and not word.expanded.startswith("--")
                and word.expanded.endswith("c")
                and number
            ):
                return walk_script(inner_text(self.words[number + 1]), self.env, "pod")
        return None


@dataclass(eq=False)
class PodGroup:
    """``count`` pods made from one template. ``role``: worker, launcher, head, submitter, daemon, or "" (helper)."""

    name: str
    role: str
    count: Value[int]
    template: Node
    entry: Node
    injected: dict[str, Variable] = field(default_factory=dict)
    resolve: Resolve | None = None
    containers: list[Container] = field(default_factory=list)
    found: dict[object, Any] = field(default_factory=dict, repr=False)
    """What was already found out about these pods (by a key of the finder): every rule asks for their machines."""

    def __post_init__(self) -> None:
        if not self.containers:
            spec = self.spec
            self.containers = [
                Container(n, self, True, resolve=self.resolve) for n in spec.get("initContainers").elements()
            ]
            self.containers += [Container(n, self, resolve=self.resolve) for n in spec.get("containers").elements()]

    @property
    def spec(self) -> Node:
        """The pod's spec."""
        return self.template.get("spec")

    @property
    def metadata(self) -> Node:
        """The pod's metadata."""
        return self.template.get("metadata")

    @cached_property
    def volumes(self) -> dict[str, Volume]:
        """Volumes by name."""
        found: dict[str, Volume] = {}
        for node in self.spec.get("volumes").elements():
            name = node.get("name").string
            kinds = [key.raw for key, _ in node.pairs() if key.raw != "name"]
            if name:
                found[name] = Volume(name, kinds[0] if kinds else "emptyDir", node)
        return found

    @property
    def main_containers(self) -> list[Container]:
        """Ordinary containers."""
        return [container for container in self.containers if not container.init]

    @cached_property
    def accelerated(self) -> list[Container]:
        """Ordinary containers that ask for accelerators."""
        return [c for c in self.main_containers if c.accelerator is not None]

    @cached_property
    def accelerators(self) -> Value[int]:
        """Accelerators of one pod."""
        found = [c.accelerators for c in self.accelerated]
        if not found:
            unknown = next(
                (c.accelerators for c in self.main_containers if isinstance(c.accelerators, Unknown)), None
            )
            return unknown or Absent(self.spec.mark)
        numbers = [value.known for value in found]
        if any(number is None for number in numbers):
            return Unknown(found[0].span)
        return Known(sum(number for number in numbers if number is not None), found[0].span)

    @cached_property
    def instance_types(self) -> tuple[Known[str], ...]:
        """Instance types that nodeSelector or required node affinity allow; () when they do not say."""
        return tuple(
            self.selected("node.kubernetes.io/instance-type") or self.selected("beta.kubernetes.io/instance-type")
        )

    def selected(self, label: str) -> list[Known[str]]:
        """Values of a node label that the pod allows, by nodeSelector or by required affinity with ``In``."""
        chosen = self.spec.get("nodeSelector", label)
        if chosen.string is not None:
            return [Known(chosen.string, chosen.span)]
        found: list[Known[str]] = []
        required = self.spec.get(
            "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
        )
        for term in required.elements():
            for expression in term.get("matchExpressions").elements():
                if expression.get("key").string == label and expression.get("operator").string == "In":
                    found += [Known(v.string, v.span) for v in expression.get("values").elements() if v.string]
        return found

    def annotation(self, name: str) -> Node:
        """An annotation of the pod itself."""
        return self.metadata.get("annotations", name)

    def label(self, name: str) -> Node:
        """A label of the pod itself."""
        return self.metadata.get("labels", name)

    def tolerates(self, key: str, effect: str, value: str | None = None) -> bool:
        """Whether a toleration of the pod covers a taint. A toleration decided by a template counts."""
        taint = "tolerates", key, effect, value
        if taint not in self.found:
            self.found[taint] = self._tolerates(key, effect, value)
        return bool(self.found[taint])

    def _tolerates(self, key: str, effect: str, value: str | None) -> bool:
        tolerations = self.spec.get("tolerations")
        if tolerations.unknown or tolerations.open:
            return True
        for toleration in tolerations.elements():
            own, kind = toleration.get("key"), toleration.get("effect")
            if any(toleration.get(part).unknown for part in ("key", "effect", "value", "operator")):
                return True
            if kind.exists and kind.string not in (effect, ""):
                continue
            if toleration.get("operator").string == "Exists":
                if not own.exists or own.string in (key, ""):
                    return True
            elif own.string == key and (toleration.get("value").string or "") == (value or ""):
                return True
        return False

    @property
    def grace_seconds(self) -> Value[int]:
        """``terminationGracePeriodSeconds`` (Kubernetes' default is 30)."""
        return self.spec.get("terminationGracePeriodSeconds").as_integer()

    @property
    def host_network(self) -> bool:
        """``hostNetwork: true``."""
        return self.spec.get("hostNetwork").boolean is True

    def launches(self) -> Iterator[tuple[Container, Launch]]:
        """Every program that its ordinary containers start."""
        for container in self.main_containers:
            for launch in container.launches:
                yield container, launch


def kubernetes_word(node: Node, variables: dict[str, Variable]) -> Word:
    """A scalar of ``command``, ``args`` or ``env`` as a Word: ``$(NAME)`` of a declared variable is expanded."""
    raw = node.raw
    source = node.text.content[node.start : node.end]
    quoted = len(source) >= 2 and source[0] == source[-1] and source[0] in "'\""
    plain = source[1:-1] if quoted else source
    span = (
        Span(node.text, node.start + quoted, node.end - quoted) if plain == raw else Span(node.as_text(), 0, len(raw))
    )
    references: list[Reference] = []
    expanded = raw
    if "$(" in raw:
        parts, at = [], 0
        while True:
            start = raw.find("$(", at)
            end = raw.find(")", start)
            if start == -1 or end == -1:
                break
            name = raw[start + 2 : end]
            variable = variables.get(name)
            if variable is not None and (start == 0 or raw[start - 1] != "$"):
                references.append(Reference(name, span.part(start, end + 1), "kubernetes", variable))
                parts.append(raw[at:start] + variable.expanded)
            else:
                parts.append(raw[at : end + 1])
            at = end + 1
        expanded = "".join(parts) + raw[at:]
    if node.unknown and PLACEHOLDER not in expanded and "\n" not in raw and " " not in raw:
        # `--nnodes=$NUM_NODES` in exec form: whoever fills the template decides.
        at = min((raw.find(mark) for mark in ("$", "{{", "<", "@", "__") if mark in raw), default=0)
        expanded = raw[:at] + PLACEHOLDER
    return Word(span, expanded, tuple(references), literal=True)
