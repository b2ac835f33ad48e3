"""``target.overrides`` of the Kubernetes kinds: a patch on what was rendered, checked against the field trees.

``pods: {STAGE: PATCH}`` patches the pod templates of a stage (``metadata`` and ``spec``), any other name is a kind
whose object is patched whole. Mappings are merged; null removes a field; a list of things with names (containers,
env, volumes, replicatedJobs …) is merged by name, any other list is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts import fields, kinds, pod_fields_since
from trainwright.facts.fields import Shape
from trainwright.targets.kubernetes.labels import STAGE
from trainwright.targets.kubernetes.manifest import Why, plain, why

_PODS = "pods"
_REASON = "target.overrides"
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "scalar": (str, int, float),
}  # fmt: skip
_Objects = dict[str, list[dict[str, Any]]]


def apply(patches: Mapping[str, Any], files: _Objects, kubernetes: str) -> _Objects:
    """The objects with the patches in place. InputError with every name and value that means nothing.

    ``kubernetes`` is the version that must know the fields of pods.
    """
    if not patches:
        return files
    everything = [found for objects in files.values() for found in objects]
    names = {found["kind"] for found in everything}
    stages = {stage for found in everything for stage, _ in _templates(found)}
    problems = list(_wrong_names(patches, names, stages))
    if problems:
        raise InputError(problems)
    by_stage: Mapping[str, Any] = patches.get(_PODS, {})
    result = {path: [_patched(found, patches, by_stage) for found in objects] for path, objects in files.items()}
    for found in (found for objects in result.values() for found in objects):
        if found["kind"] in patches or any(stage in by_stage for stage, _ in _templates(found)):
            problems += _against_tree(found)
            problems += _too_new(found, kubernetes)
    if problems:
        raise InputError(problems)
    return result


def merge(value: Any, patch: Any) -> Any:
    """``value`` with ``patch`` in place; neither is changed. What was changed says so."""
    inner = value.value if isinstance(value, Why) else value
    if isinstance(inner, Mapping) and isinstance(patch, Mapping):
        merged = dict(inner)
        for key, change in patch.items():
            if change is None:
                merged.pop(key, None)
            elif key in merged:
                merged[key] = merge(merged[key], change)
            else:
                merged[key] = why(_without_nulls(change), _REASON)
        return why(merged, value.reason) if isinstance(value, Why) else merged
    if isinstance(inner, list) and isinstance(patch, list) and _named(inner) and _named(patch):
        return _merged_by_name(inner, patch)
    return why(_without_nulls(patch), _REASON)


def _merged_by_name(items: list[Any], patches: list[Any]) -> list[Any]:
    changes = {patch["name"]: patch for patch in patches}
    merged = [
        merge(item, changes.pop(plain(item)["name"])) if plain(item)["name"] in changes else item for item in items
    ]
    return [*merged, *(why(_without_nulls(patch), _REASON) for patch in changes.values())]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def _named(items: list[Any]) -> bool:
    inner = [item.value if isinstance(item, Why) else item for item in items]
    return bool(inner) and all(isinstance(item, Mapping) and "name" in item for item in inner)


def _patched(found: dict[str, Any], patches: Mapping[str, Any], by_stage: Mapping[str, Any]) -> dict[str, Any]:
    for stage, path in list(_templates(found)):
        if stage in by_stage:
            found = _changed(found, path, by_stage[stage])
    return merge(found, patches[found["kind"]]) if found["kind"] in patches else found


def _changed(value: Any, path: tuple[str | int, ...], patch: Any) -> Any:
    """A copy of ``value`` in which what stands at ``path`` is merged with ``patch``."""
    if not path:
        return merge(value, patch)
    if isinstance(value, Why):
        return why(_changed(value.value, path, patch), value.reason)
    first, *rest = path
    if isinstance(value, list):
        return [_changed(item, tuple(rest), patch) if at == first else item for at, item in enumerate(value)]
    return {key: _changed(item, tuple(rest), patch) if key == first else item for key, item in value.items()}


def _templates(found: dict[str, Any]) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Stage and path of every pod template of an object."""
    group = str(found["apiVersion"]).rpartition("/")[0]
    kind = kinds.get(found["kind"], group)
    for pod in kind.pods if kind else ():
        for path in _places(plain(found), pod.each):
            template = _at(plain(found), (*path, *pod.template))
            stage = (template or {}).get("metadata", {}).get("labels", {}).get(STAGE)
            if isinstance(stage, str):
                yield stage, (*path, *pod.template)


def _places(found: Any, each: tuple[str, ...]) -> Iterator[tuple[str | int, ...]]:
    if not each:
        yield ()
        return
    group = _at(found, each)
    for key in group if isinstance(group, Mapping) else range(len(group or ())):
        yield (*each, key)


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _wrong_names(patches: Mapping[str, Any], names: set[str], stages: set[str]) -> Iterator[Problem]:
    for name, patch in patches.items():
        field = f"{_REASON}.{name}"
        if name != _PODS and name not in names:
            near = did_you_mean(str(name), [_PODS, *sorted(names)])
            yield Problem("", field=field, what="is no object of this target", instead=near)
        elif not isinstance(patch, Mapping):
            yield Problem("", field=field, what=f"is {patch!r}", instead="write the fields to change")
        elif name == _PODS:
            for stage, change in patch.items():
                if stage not in stages:
                    near = did_you_mean(str(stage), sorted(stages))
                    yield Problem("", field=f"{field}.{stage}", what="is no stage with pods", instead=near)
                elif not isinstance(change, Mapping):
                    instead = "write metadata and spec of the pods"
                    yield Problem("", field=f"{field}.{stage}", what=f"is {change!r}", instead=instead)


def _against_tree(found: dict[str, Any]) -> Iterator[Problem]:
    group, _, version = str(plain(found["apiVersion"])).rpartition("/")
    tree = fields.tree(found["kind"], group, version)
    if tree is not None:
        yield from _mistakes(plain(found), tree.shape, found["kind"])


def _too_new(found: dict[str, Any], kubernetes: str) -> Iterator[Problem]:
    for stage, path in _templates(found):
        for field, since in pod_fields_since.lacking(_at(plain(found), path), kubernetes):
            what = f"is a field since Kubernetes {since}, and this is for {kubernetes}"
            yield Problem("", field=f"{_REASON}.{_PODS}.{stage}.{field}", what=what, instead="leave it out")


def _mistakes(value: Any, shape: Shape, where: str) -> Iterator[Problem]:
    if shape.is_object and isinstance(value, Mapping):
        for key, inner in value.items():
            field = shape.field(str(key))
            if field is not None:
                yield from _mistakes(inner, field, f"{where}.{key}")
            elif shape.closed:
                near = did_you_mean(str(key), shape.fields)
                yield Problem("", field=f"{_REASON}: {where}.{key}", what="is no field", instead=near)
    elif shape.items is not None and isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _mistakes(inner, shape.items, f"{where}[{index}]")
    elif shape.values is not None and isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _mistakes(inner, shape.values, f"{where}.{key}")
    elif not _right_type(value, shape):
        needed = shape.scalar or ("a list" if shape.items is not None else "a mapping")
        yield Problem("", field=f"{_REASON}: {where}", what=f"is {value!r}", instead=f"{needed} is needed")
    elif shape.enum and value not in shape.enum:
        instead = f"one of {', '.join(shape.enum)}"
        yield Problem("", field=f"{_REASON}: {where}", what=f"is {value!r}", instead=instead)


def _right_type(value: Any, shape: Shape) -> bool:
    if shape.scalar == "any":
        return True
    if not shape.scalar:
        return False
    return isinstance(value, _TYPES[shape.scalar]) and (shape.scalar == "boolean" or not isinstance(value, bool))
