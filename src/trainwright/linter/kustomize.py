"""Which files a kustomization puts together, so that a base and its overlay see each other across folders.

Takes all files of a run and gives them their sets. A base that several overlays use belongs to none of them: its
objects would otherwise meet the patches of another environment.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence

from trainwright.linter.documents import ConfigDocument, KubernetesObject
from trainwright.linter.node import Node
from trainwright.linter.project import SourceFile

_NAMES = ("kustomization.yaml", "kustomization.yml", "kustomization")
_LISTS = ("resources", "bases", "components", "patchesStrategicMerge", "configurations", "crds")
_MAX_LISTED = 2_000


def join_sets(files: Sequence[SourceFile]) -> None:
    """Give the files that a kustomization lists the set of the kustomization itself."""
    by_path = {os.path.normpath(file.path): file for file in files}
    referrers: dict[str, set[str]] = defaultdict(set)
    for file in files:
        if os.path.basename(file.path).lower() in _NAMES:
            folder = os.path.dirname(file.path)
            for listed in _listed(file):
                referrers[os.path.normpath(os.path.join(folder, listed))].add(file.together)
    joined: dict[str, str] = {}
    for path, sets in referrers.items():
        if len(sets) == 1:
            (target,) = sets
            source = by_path[path].together if path in by_path else _set_of_folder(path, files)
            if source is not None and source != target:
                joined[source] = target
    for file in files:
        file.together = _end(joined, file.together)


def _end(joined: dict[str, str], name: str) -> str:
    seen = {name}
    while name in joined and joined[name] not in seen:
        name = joined[name]
        seen.add(name)
    return name


def _set_of_folder(path: str, files: Sequence[SourceFile]) -> str | None:
    return next((file.together for file in files if os.path.normpath(os.path.dirname(file.path)) == path), None)


def _listed(file: SourceFile) -> Iterator[str]:
    """Relative paths of files and folders that a kustomization names; no URLs."""
    for document in file.documents:
        if isinstance(document, KubernetesObject | ConfigDocument) and document.holder is None:
            for name in _names(document.node):
                if "://" not in name and not name.startswith(("/", "git@", "github.com")) and "?" not in name:
                    yield name


def _names(node: Node) -> Iterator[str]:
    entries = [entry for key in _LISTS for entry in node.get(key).elements()]
    entries += [patch.get("path") for key in ("patches", "patchesJson6902") for patch in node.get(key).elements()]
    for generator in (*node.get("configMapGenerator").elements(), *node.get("secretGenerator").elements()):
        entries += generator.get("files").elements()
    for entry in entries[:_MAX_LISTED]:
        if entry.string:
            yield entry.string.rpartition("=")[2]  # `key=file` in generators
