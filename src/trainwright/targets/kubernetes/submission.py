"""From a bundle's files to objects in the cluster, and back: check, apply in order, take away again.

Takes a ``Cluster`` and objects; nothing stays half-submitted: everything is first tried on the server without effect,
and what a failed submit has made is deleted. It must not know what a run is or how it stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from trainwright.errors import InputError, Problem, SystemUnreachable, TrainwrightError
from trainwright.targets.bundle import Bundle
from trainwright.targets.kubernetes.cluster import Cluster, Object
from trainwright.targets.kubernetes.labels import STAGE
from trainwright.targets.kubernetes.record import StageRecord

CONFIG, PIPELINE = "config", "pipeline"
ORDER = ("prepare", "train", "finish")
_KEPT = ("PersistentVolumeClaim", "Secret")  # they hold what outlives a run
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Placed:
    """One object of a bundle. ``stage`` is ``config`` for what all stages use."""

    file: str
    stage: str
    object_: Object

    @property
    def kind(self) -> str:
        """Kind of the object."""
        return str(self.object_["kind"])

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.object_["metadata"]["name"])


def objects_of(bundle: Bundle) -> list[Placed]:
    """Every object of a bundle in the order in which they are applied. InputError for a file that holds none."""
    found: list[Placed] = []
    for file in sorted((one for one in bundle.files if one.apply_order), key=lambda one: one.apply_order):
        try:
            documents = [one for one in yaml.load_all(file.text, Loader=_LOADER) if one is not None]
        except yaml.YAMLError as error:
            raise InputError([Problem(file.path, what=f"is not YAML: {error}")]) from error
        for one in documents:
            if not isinstance(one, dict) or not one.get("kind") or not (one.get("metadata") or {}).get("name"):
                what = "holds a document that is no Kubernetes object"
                raise InputError([Problem(file.path, what=what, instead="render the bundle again")])
            labels = one["metadata"].get("labels") or {}
            found.append(Placed(file.path, str(labels.get(STAGE) or CONFIG), one))
    return found


def stages_of(objects: Sequence[Placed]) -> tuple[StageRecord, ...]:
    """The stages' objects in order: one each; an object that holds the whole pipeline stands for all of them."""
    found: dict[str, StageRecord] = {}
    for one in objects:
        if one.stage == CONFIG or one.kind in ("Service", "ConfigMap", "Secret", "PersistentVolumeClaim"):
            continue
        whole = one.stage == PIPELINE
        name = "train" if whole else one.stage
        parts = _parts(objects, one.file) if whole else ()
        found[name] = StageRecord(name, one.file, str(one.object_["apiVersion"]), one.kind, one.name, whole, parts)
    return tuple(found.values())


def of_stage(objects: Iterable[Placed], stage: StageRecord | None) -> list[Placed]:
    """What is applied together: the objects of a stage's file; None for what all stages use."""
    if stage is None:
        return [one for one in objects if one.stage == CONFIG]
    return [one for one in objects if one.file == stage.file and one.stage != CONFIG]


def check(cluster: Cluster, objects: Sequence[Placed]) -> set[int]:
    """Let the server check every object without effect; indexes of those that exist already.

    Raises one error: InputError with all that is wrong, else the first refusal.
    """
    problems: list[Problem] = []
    first: TrainwrightError | None = None
    there: set[int] = set()
    for number, one in enumerate(objects):
        try:
            answer = cluster.apply(one.object_, dry_run=True)
        except InputError as error:
            if not _waits_for_runtime(one, objects, str(error)):
                problems += [_with_file(problem, one) for problem in error.problems]
        except SystemUnreachable:
            raise
        except TrainwrightError as error:
            if not _waits_for_runtime(one, objects, str(error)):
                first = first or error
        else:
            if (answer.get("metadata") or {}).get("resourceVersion"):
                there.add(number)
    if problems:
        raise InputError(problems)
    if first is not None:
        raise first
    return there


def apply(cluster: Cluster, objects: Sequence[Placed], told: Callable[[Placed], object] = lambda _: None) -> None:
    """Check and apply every object. When one is refused, what this call has made is deleted again."""
    there = check(cluster, objects)
    made: list[Placed] = []
    try:
        for number, one in enumerate(objects):
            if number not in there:
                made.append(one)  # before the request: its answer may be lost
            cluster.apply(one.object_)
            told(one)
    except BaseException:
        for one in reversed(made):
            with contextlib.suppress(TrainwrightError):
                remove(cluster, one.object_)
        raise


def remove(cluster: Cluster, object_: Object, grace_seconds: int | None = None) -> bool:
    """Delete one object of a bundle; False when it was not there."""
    resource = cluster.resource(str(object_["apiVersion"]), str(object_["kind"]))
    about = object_["metadata"]
    return cluster.delete(resource, str(about["name"]), about.get("namespace"), grace_seconds=grace_seconds)


def removable(objects: Iterable[Placed]) -> list[Placed]:
    """What a cancelled run leaves nothing of: all but claims and secrets."""
    return [one for one in objects if one.kind not in _KEPT]


def _parts(objects: Sequence[Placed], file: str) -> tuple[str, ...]:
    """Stages whose pods a pipeline makes, in order: by the labels of its templates, or of those of its runtime."""
    present: set[str] = set()

    def walk(value: Any) -> None:  # Any: a part of a manifest
        if isinstance(value, dict):
            if isinstance(value.get(STAGE), str):
                present.add(value[STAGE])
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    for one in objects:
        if one.file == file or one.kind.endswith("TrainingRuntime"):
            walk(one.object_)
    return tuple(name for name in ORDER if name in present)


def _waits_for_runtime(one: Placed, objects: Sequence[Placed], message: str) -> bool:
    """A TrainJob is refused while its runtime is not there; in the same bundle it is applied just before."""
    rendered = any(other.kind in ("TrainingRuntime", "ClusterTrainingRuntime") for other in objects)
    return one.kind == "TrainJob" and rendered and "untime" in message and "not found" in message


def _with_file(problem: Problem, one: Placed) -> Problem:
    where = f"{one.file} ({one.kind}/{one.name})"
    return Problem(where, problem.line, problem.column, problem.field, problem.what, problem.instead)
