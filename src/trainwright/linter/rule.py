"""Rule: one class per defect. A rule is given one subject at a time and yields Hits; the engine does the rest.

Subclass one of the bases below: they say what a subject is (a launch, a job, a group of pods, a Kubernetes object, a
configuration file, a script, a Python file, a file as a whole, or the whole project). A rule never parses text, never
knows lines, and never raises on any shape of input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from trainwright.linter.documents import ConfigDocument, KubernetesObject, PythonDocument, Role, ScriptDocument
from trainwright.linter.finding import Edit, Severity
from trainwright.linter.node import Node
from trainwright.linter.project import Project, SourceFile
from trainwright.linter.shell.chain import Invocation, Launch
from trainwright.linter.shell.flags import Flag
from trainwright.linter.shell.words import Command, Variable, Word
from trainwright.linter.text import Span
from trainwright.linter.values import Absent, Known, Unknown
from trainwright.linter.view.job import JobLaunch, TrainingJob
from trainwright.linter.view.pods import Container, Mount, PodGroup, Volume
from trainwright.linter.view.trainer import TrainerArguments, trainer_runs

Evidence = Literal["verified", "reproduced", "reported", "knowledge"]
"""verified: read in the upstream definition · reproduced: run here or against the real system · reported: a public
issue or incident shows it · knowledge: documented or widely known, without proof at hand; never an error."""

Where = (
    Span | Node | Known[Any] | Unknown | Absent | Flag | Word | Variable | Command | Invocation | Launch | JobLaunch
    | TrainingJob | KubernetesObject | ConfigDocument | ScriptDocument | Container | Mount | Volume | PodGroup
)  # fmt: skip

S = TypeVar("S")


@dataclass(frozen=True)
class Hit:
    """One occurrence of a rule's defect. ``severity`` overrides the rule's own."""

    span: Span
    why: str
    instead: str
    severity: Severity | None = None
    fix: tuple[Edit, ...] | None = None


def span_of(where: Where) -> Span:
    """Where a finding about this thing points."""
    if isinstance(where, Span):
        return where
    if isinstance(where, Node):
        return where.mark
    if isinstance(where, Invocation):
        return where.name.span
    if isinstance(where, TrainingJob | KubernetesObject | ConfigDocument | ScriptDocument):
        return where.top
    if isinstance(where, Container):
        name = where.node.get("name")
        return name.span if name.exists else where.node.mark
    if isinstance(where, PodGroup):
        return where.template.mark
    if isinstance(where, Mount | Volume):
        name = where.node.get("mountPath") if isinstance(where, Mount) else where.node.get("name")
        return name.span if name.exists else where.node.mark
    return where.span


class Rule(ABC, Generic[S]):
    """What every rule states about itself. ``since`` and ``until`` say in which versions of a component it holds
    (``{"kubernetes": "1.29"}``: inclusive and exclusive); a version that is not known does not switch a rule off."""

    id: ClassVar[str]
    severity: ClassVar[Severity]
    category: ClassVar[str]
    summary: ClassVar[str]
    evidence: ClassVar[Evidence]
    source: ClassVar[str]
    since: ClassVar[Mapping[str, str]] = {}
    until: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def subjects(self, project: Project) -> Iterable[S]:
        """What to check, one by one."""

    @abstractmethod
    def check(self, subject: S, project: Project) -> Iterator[Hit]:
        """Occurrences of the defect in one subject."""

    def hit(self, where: Where, why: str, instead: str, severity: Severity | None = None,
            fix: Sequence[Edit | None] = ()) -> Hit:  # fmt: skip
        """A Hit at a place. ``fix`` is dropped unless all of its edits are possible."""
        edits = tuple(edit for edit in fix if edit is not None)
        return Hit(span_of(where), why, instead, severity, edits if edits and len(edits) == len(fix) else None)


class LaunchRule(Rule[JobLaunch]):
    """Checks every command that starts training (torchrun, accelerate, deepspeed, mpirun, python on accelerators)."""

    def subjects(self, project: Project) -> Iterable[JobLaunch]:
        """Training launches of all jobs."""
        return (launch for job in project.jobs for launch in job.training_launches)


class JobRule(Rule[TrainingJob]):
    """Checks every job, of any front-end."""

    frontends: ClassVar[tuple[str, ...]] = ()

    def subjects(self, project: Project) -> Iterable[TrainingJob]:
        """All jobs, or those of ``frontends``."""
        return (job for job in project.jobs if not self.frontends or job.frontend in self.frontends)


@dataclass(frozen=True)
class Pods:
    """A subject of PodRule: one group of pods of one job."""

    job: TrainingJob
    group: PodGroup


class PodRule(Rule[Pods]):
    """Checks every group of pods: volumes, containers, placement, lifecycle."""

    def subjects(self, project: Project) -> Iterable[Pods]:
        """Pod groups of all jobs."""
        return (Pods(job, group) for job in project.jobs for group in job.groups)


class ObjectRule(Rule[KubernetesObject]):
    """Checks Kubernetes objects of ``kinds`` (all of them when empty), in API ``groups`` if given."""

    kinds: ClassVar[tuple[str, ...]] = ()
    groups: ClassVar[tuple[str, ...]] = ()

    def subjects(self, project: Project) -> Iterable[KubernetesObject]:
        """Objects of these kinds."""
        return (o for o in project.objects(*self.kinds) if not self.groups or o.group in self.groups)


class TrainerRule(Rule[TrainerArguments]):
    """Checks every training run's arguments: options of its command, the YAML file it names, its DeepSpeed file."""

    def subjects(self, project: Project) -> Iterable[TrainerArguments]:
        """All runs, and files of arguments that no command in sight names."""
        return trainer_runs(project)


class ConfigRule(Rule[ConfigDocument]):
    """Checks configuration documents of ``roles`` (deepspeed, accelerate, training, helm-values, fsdp, spec)."""

    roles: ClassVar[tuple[Role, ...]]

    def subjects(self, project: Project) -> Iterable[ConfigDocument]:
        """Documents of these roles."""
        return project.configs(*self.roles)


class ScriptRule(Rule[ScriptDocument]):
    """Checks shell scripts as such: directives, order of commands, traps."""

    def subjects(self, project: Project) -> Iterable[ScriptDocument]:
        """All scripts."""
        return project.scripts


class PythonRule(Rule[PythonDocument]):
    """Checks Python files through their ``ast`` (see ``linter.view.python`` for calls by full name)."""

    def subjects(self, project: Project) -> Iterable[PythonDocument]:
        """All Python files."""
        return project.modules


class FileRule(Rule[SourceFile]):
    """Checks files as such: could they be read at all."""

    def subjects(self, project: Project) -> Iterable[SourceFile]:
        """All files."""
        return project.files


class ProjectRule(Rule[Project]):
    """Checks everything at once: objects against one another."""

    def subjects(self, project: Project) -> Iterable[Project]:
        """The project."""
        return (project,)


def page_path(module: str) -> Path:
    """The page of the rule in module ``…rules.TW123_name``: the Markdown file beside it."""
    return Path(__file__).parent / "rules" / f"{module.rsplit('.', 1)[-1]}.md"
