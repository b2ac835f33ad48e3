"""Project: everything that one run of the linter looks at together, and how its parts find one another.

Takes files that were read; gives documents by kind, the object that a name refers to, the file that a command names,
and the training jobs (``view``). Nearness decides: the same file first, then the same folder, then the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from trainwright.linter.documents import (
    ConfigDocument,
    Document,
    KubernetesObject,
    PythonDocument,
    Role,
    ScriptDocument,
)
from trainwright.linter.readers.yaml_reader import ReadProblem
from trainwright.linter.text import PLACEHOLDER, Text
from trainwright.linter.values import version_tuple

if TYPE_CHECKING:
    from trainwright.linter.view.job import TrainingJob

D = TypeVar("D", bound=Document)


@dataclass(eq=False)
class SourceFile:
    """One file as read. ``together`` names the set it belongs to: files of different sets do not see each other.
    ``digest`` is the SHA-256 of its bytes ("" when it is no file on disk); ``marked`` says that it begins with a byte
    order mark, ``carriage`` that its lines end in CR LF: neither is in ``text``."""

    path: str
    text: Text
    language: str
    documents: list[Document] = field(default_factory=list)
    problems: list[ReadProblem] = field(default_factory=list)
    together: str = ""
    digest: str = ""
    marked: bool = False
    carriage: bool = False


class Versions:
    """Versions of what will read the files (``kubernetes``, ``kueue``, ``slurm``, …), as far as they are known."""

    def __init__(self, given: Mapping[str, str] | None = None):
        self._given = {name: version_tuple(text) for name, text in (given or {}).items()}

    def known(self, component: str) -> bool:
        """Whether the caller fixed this component's version."""
        return bool(self._given.get(component))

    def at_least(self, component: str, version: str) -> bool | None:
        """Whether the component is this version or newer; None when its version is not known."""
        given = self._given.get(component)
        if not given:
            return None
        wanted = version_tuple(version)
        return given[: len(wanted)] >= wanted

    def holds(self, since: Mapping[str, str], until: Mapping[str, str]) -> bool:
        """Whether something true from ``since`` (inclusive) to ``until`` (exclusive) can be true here. What is not
        known does not rule it out."""
        return all(self.at_least(c, v) is not False for c, v in since.items()) and all(
            self.at_least(c, v) is not True for c, v in until.items()
        )


class Project:
    """All files of one run."""

    def __init__(
        self,
        files: Sequence[SourceFile],
        versions: Versions | None = None,
        read: Callable[[str], SourceFile | None] | None = None,
    ):
        """``read`` opens a file that a command names and nobody passed; such files are only looked at from there."""
        self.files = list(files)
        self.neighbours: list[SourceFile] = []
        self._read = read
        self._looked_for: dict[str, Document | None] = {}
        self._on_disk = {file.path for file in files if file.digest}
        self.versions = versions or Versions()
        self._set_of = {id(document): file.together for file in self.files for document in file.documents}

    @cached_property
    def documents(self) -> list[Document]:
        """Every document, in order of files."""
        return [document for file in self.files for document in file.documents]

    @cached_property
    def _by_kind(self) -> dict[str, list[KubernetesObject]]:
        found: dict[str, list[KubernetesObject]] = defaultdict(list)
        for document in self.documents:
            if isinstance(document, KubernetesObject):
                found[document.kind].append(document)
        return found

    def objects(self, *kinds: str, group: str | None = None) -> list[KubernetesObject]:
        """Kubernetes objects of these kinds (all when none is given), of one API group if given."""
        found = [o for kind in (kinds or tuple(self._by_kind)) for o in self._by_kind.get(kind, ())]
        return found if group is None else [o for o in found if o.group == group]

    def configs(self, *roles: Role) -> list[ConfigDocument]:
        """Configuration documents of these roles."""
        return [d for d in self.documents if isinstance(d, ConfigDocument) and d.role in roles]

    @cached_property
    def scripts(self) -> list[ScriptDocument]:
        """Shell scripts, embedded ones included."""
        return [d for d in self.documents if isinstance(d, ScriptDocument)]

    @cached_property
    def modules(self) -> list[PythonDocument]:
        """Python files, embedded ones included."""
        return [d for d in self.documents if isinstance(d, PythonDocument)]

    @cached_property
    def jobs(self) -> list[TrainingJob]:
        """Everything that starts processes: workloads with pods and scripts with launch commands."""
        from trainwright.linter.view import read_jobs

        return list(read_jobs(self))

    # -- how parts find one another
    # --------------------------------------------------------------------------------------

    def near(self, document: Document, others: Sequence[D]) -> list[D]:
        """Those of ``others`` that belong with ``document``: of the same file if there are any, else of its set."""
        same = [other for other in others if other.path == document.path and other is not document]
        if same:
            return same
        mine = self._set_of.get(id(document), "")
        return [o for o in others if o is not document and self._set_of.get(id(o), "") == mine]

    @cached_property
    def _neighbours(self) -> dict[tuple[str, str], list[KubernetesObject]]:
        """Objects by kind and place ("path:…" or "set:…")."""
        found: dict[tuple[str, str], list[KubernetesObject]] = defaultdict(list)
        for kind, objects in self._by_kind.items():
            for document in objects:
                for place in self._places(document):
                    found[kind, place].append(document)
        return found

    @cached_property
    def _named(self) -> dict[tuple[str, str, str | None], list[KubernetesObject]]:
        """The same by name as well."""
        found: dict[tuple[str, str, str | None], list[KubernetesObject]] = defaultdict(list)
        for (kind, place), objects in self._neighbours.items():
            for document in objects:
                found[kind, place, document.object_name].append(document)
        return found

    @cached_property
    def _together(self) -> dict[tuple[tuple[str, ...], str], list[KubernetesObject]]:
        """Objects of several kinds by place, gathered when they are first asked for."""
        return {}

    def _places(self, document: Document) -> tuple[str, str]:
        """Where to look for what belongs with a document, nearest first."""
        return f"path:{document.path}", f"set:{self._set_of.get(id(document), '')}"

    def related(self, document: Document, *kinds: str) -> list[KubernetesObject]:
        """Kubernetes objects of these kinds that belong with ``document``: those of its file, else of its set."""
        for place in self._places(document):
            found = self._together.get((kinds, place))
            if found is None:
                found = [o for kind in kinds for o in self._neighbours.get((kind, place), ())]
                self._together[kinds, place] = found
            if isinstance(document, KubernetesObject) and document.kind in kinds:
                found = [o for o in found if o is not document]
            if found:
                return list(found)
        return []

    def find(
        self, document: Document, kind: str, name: str | None, namespace: str | None = None
    ) -> KubernetesObject | None:
        """The object that ``document`` means by kind and name; None when there is none, or more than one."""
        if name is None:
            return None
        named: list[KubernetesObject] = []
        for place in self._places(document):
            named = named or self._named.get((kind, place, name), [])
        matching = [o for o in named if (o.namespace or "default") == (namespace or "default")] or named
        return matching[0] if len(matching) == 1 else None

    def file(self, name: str | None, near: Document) -> Document | None:
        """The document that a command means by a file name: written by its own script first, then mounted or beside
        it, then with the same base name anywhere in its set."""
        if not name:
            return None
        base = name.rsplit("/", 1)[-1]
        own = self._embedded.get(id(_outermost(near)), [])
        for document in own:
            if document.name == name or document.name.rsplit("/", 1)[-1] == base:
                return document
        mine = self._set_of.get(id(near), self._set_of.get(id(_outermost(near)), ""))
        candidates = [d for d in self._by_base.get(base, ()) if self._set_of.get(id(d), "") == mine and d is not near]
        same = [d for d in candidates if d.path == near.path]
        candidates = same or candidates
        if not candidates:
            return self._neighbour(name, near)
        return candidates[0] if len(candidates) == 1 else None

    def _neighbour(self, name: str, near: Document) -> Document | None:
        """The file of that name in the folder of ``near``, read now. Only names that stay below that folder."""
        if self._read is None or near.path not in self._on_disk or PLACEHOLDER in name or len(name) > 255:
            return None
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.suffix:
            return None
        place = str(PurePosixPath(near.path).parent / path)
        if place not in self._looked_for:
            found = self._read(place)
            self._looked_for[place] = found.documents[0] if found is not None else None
            if found is not None:
                self.neighbours.append(found)
        return self._looked_for[place]

    @cached_property
    def _embedded(self) -> dict[int, list[Document]]:
        found: dict[int, list[Document]] = defaultdict(list)
        for document in self.documents:
            if document.holder is not None:
                found[id(_outermost(document))].append(document)
        return found

    @cached_property
    def _by_base(self) -> dict[str, list[Document]]:
        found: dict[str, list[Document]] = defaultdict(list)
        for document in self.documents:
            if isinstance(document, KubernetesObject):
                continue
            found[(document.name or document.path).rsplit("/", 1)[-1]].append(document)
        return found

    def held_by(self, holder: Document) -> Iterator[Document]:
        """Documents embedded in ``holder``."""
        return (d for d in self._embedded.get(id(_outermost(holder)), []) if d.holder is holder)


def _outermost(document: Document) -> Document:
    while document.holder is not None:
        document = document.holder
    return document
