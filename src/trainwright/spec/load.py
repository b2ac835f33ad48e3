"""Load a spec or a site: read, substitute, merge, validate; every problem at once, each with its position.

The order: YAML → ``--set`` → ``${env:NAME}`` → the site's defaults underneath → types → rules across fields.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import BaseModel

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.spec.model import RunSpec
from trainwright.spec.rules import violations
from trainwright.spec.site import Site
from trainwright.spec.validate import validate
from trainwright.spec.yaml_reader import MAX_BYTES, Document, Path, dotted, parse_scalar, read_text

ModelT = TypeVar("ModelT", bound=BaseModel)

_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ANY_VARIABLE = re.compile(r"\$\{[^}]*\}?")
_SET = re.compile(r"[A-Za-z_]\w*(?:\.\w[\w-]*)*")


@dataclass(frozen=True)
class Loaded:
    """A spec with where each of its fields stands, and the site it was merged over."""

    spec: RunSpec
    site: Site
    document: Document

    def problem(self, path: Path, what: str, instead: str = "") -> Problem:
        """A problem at a field of this spec, for rooms that check what the spec alone cannot know."""
        return Problem(self.document.path, *self.document.position(path), dotted(path), what, instead)


def load(path: str | FilePath, overrides: Iterable[str] = (), site: str | FilePath | None = None) -> Loaded:
    """Read a spec file. ``overrides`` are ``a.b=value`` texts. Raises InputError with every problem found."""
    path = FilePath(path)
    return _load(_read(path), path, overrides, site)


def problems_in(text: str, path: str) -> list[Problem]:
    """Everything wrong with the text of the spec file at ``path``, over the site file beside it; [] when right."""
    try:
        _load(read_text(text, path), FilePath(path), (), None)
    except InputError as error:
        return error.problems
    return []


def _load(document: Document, path: FilePath, overrides: Iterable[str], site: str | FilePath | None) -> Loaded:
    loaded_site = load_site(site) if site else _site_beside(path)
    problems: list[Problem] = []
    sources = dict(_apply(document, overrides, problems))
    values = _substitute(document.value, document, (), problems)
    if not isinstance(values, dict):
        what = f"holds a {type(values).__name__}, not a mapping of fields"
        raise InputError([Problem(str(path), 1, 1, "", what, "`trainwright init` writes a commented spec")])
    _read_deepspeed(values, path.parent.absolute(), document, problems)
    merged = _merge(loaded_site.defaults, values)
    spec, found = _check(RunSpec, merged, document, path.parent.absolute(), sources)
    problems += _news(found, problems)
    if problems or spec is None:
        raise InputError(_in_order(problems))
    return Loaded(spec, loaded_site, document)


def load_site(path: str | FilePath) -> Site:
    """Read a site file. Raises InputError with every problem found."""
    path = FilePath(path)
    document = _read(path)
    problems: list[Problem] = []
    values = _substitute(document.value, document, (), problems)
    site, found = _check(Site, values, document, path.parent.absolute(), {})
    problems += _news(found, problems)
    if problems or site is None:
        raise InputError(_in_order(problems))
    return site


def spec_from_values(values: Mapping[str, Any], path: str = "<spec>") -> RunSpec:
    """A spec from plain values, such as a resolved spec.yaml read back or Python callers; paths must be absolute."""
    spec, problems = _check(RunSpec, dict(values), Document(path, values), None, {})
    if problems or spec is None:
        raise InputError(problems)
    return spec


def read_resolved(path: str | FilePath) -> RunSpec:
    """Read the resolved ``spec.yaml`` of a run folder or bundle."""
    document = _read(FilePath(path))
    if not isinstance(document.value, dict):
        raise InputError([Problem(str(path), what="is no resolved spec")])
    return spec_from_values(document.value, str(path))


def _read_deepspeed(values: dict[str, Any], folder: FilePath, document: Document, problems: list[Problem]) -> None:
    """Put the content of a DeepSpeed file in place of its name, so that the resolved spec needs no other file."""
    named = values.get("deepspeed")
    if not isinstance(named, str):
        return
    file = folder / FilePath(named).expanduser()
    try:
        values["deepspeed"] = json.loads(file.read_text("utf-8"))
        return
    except OSError as error:
        what, instead = f"names {file}, which cannot be read: {error.strerror}", "name a JSON file"
    except (ValueError, RecursionError) as error:
        what, instead = f"names {file}, which is not JSON: {error}", "write JSON as DeepSpeed reads it"
    del values["deepspeed"]
    problems.append(Problem(document.path, *document.position(("deepspeed",)), "deepspeed", what, instead))


def _site_beside(path: FilePath) -> Site:
    named = os.environ.get("TRAINWRIGHT_SITE")
    if named:
        return load_site(named)
    beside = path.parent / "site.yaml"
    return load_site(beside) if beside.is_file() else Site()


def _read(path: FilePath) -> Document:
    try:
        text = _bytes(path).decode()
    except FileNotFoundError:
        near = [p.name for p in sorted(path.parent.glob("*.y*ml"))] if path.parent.is_dir() else []
        instead = did_you_mean(path.name, near) if near else "`trainwright init` writes one"
        raise InputError([Problem(str(path), what="no such file", instead=instead)]) from None
    except OSError as error:
        raise InputError([Problem(str(path), what=f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError:
        raise InputError([Problem(str(path), what="is not text in UTF-8")]) from None
    return read_text(text, str(path))


def _bytes(path: FilePath) -> bytes:
    """Content of a file a person wrote. A pipe without a writer or a device would be read for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as handle:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise InputError([Problem(str(path), what="is no regular file", instead="write the text into a file")])
        if state.st_size > MAX_BYTES:
            what, instead = f"has {state.st_size:,} bytes", "this file should be a page or two"
            raise InputError([Problem(str(path), what=what, instead=instead)])
        return handle.read(MAX_BYTES + 1)


def _apply(document: Document, overrides: Iterable[str], problems: list[Problem]) -> Iterator[tuple[Path, str]]:
    """Write each override into the document; yields the path each one set, with its text."""
    for text in overrides:
        name, equals, right = text.partition("=")
        if not equals or not _SET.fullmatch(name):
            problems.append(Problem(f"--set {text}", what="is no override", instead="write --set a.b=value"))
            continue
        path: Path = tuple(int(part) if part.isdigit() else part for part in name.split("."))
        try:
            value = parse_scalar(right)
        except InputError as error:
            problems.append(Problem(f"--set {text}", what=error.problems[0].what, instead="quote the value"))
            continue
        if _put(document, path, value):
            yield path, text
        else:
            problems.append(Problem(f"--set {text}", what="leads through a value that is no mapping or list"))


def _put(document: Document, path: Path, value: Any) -> bool:
    document.value = copy.deepcopy(document.value)  # aliases in the file may share one object
    parent = document.value
    for part, following in itertools.pairwise(path):
        if isinstance(parent, dict):
            if parent.get(part) is None:
                parent[part] = [] if isinstance(following, int) else {}
            elif part == "model" and isinstance(parent[part], str):
                parent[part] = {"path": parent[part]}
            parent = parent[part]
        elif isinstance(parent, list) and isinstance(part, int) and part < len(parent):
            parent = parent[part]
        else:
            return False
    last = path[-1]
    if isinstance(parent, dict):
        parent[str(last)] = value
        return True
    if isinstance(parent, list) and isinstance(last, int) and last <= len(parent):
        parent[last : last + 1] = [value]
        return True
    return False


def _substitute(value: Any, document: Document, where: Path, problems: list[Problem]) -> Any:
    """Replace ``${env:NAME}`` and ``${env:NAME:-default}`` in every text."""
    if isinstance(value, dict):
        return {key: _substitute(child, document, (*where, key), problems) for key, child in value.items()}
    if isinstance(value, list):
        return [_substitute(child, document, (*where, index), problems) for index, child in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value

    def problem(what: str, instead: str) -> None:
        problems.append(Problem(document.path, *document.position(where), dotted(where), what, instead))

    def environment(match: re.Match[str]) -> str:
        found = os.environ.get(match[1], match[2])
        if found is None:
            problem(f"{match[0]} is not set", f"export {match[1]}, or write ${{env:{match[1]}:-default}}")
            return ""
        return found

    for other in _ANY_VARIABLE.findall(_VARIABLE.sub("", value)):
        if where[:1] not in (("train",), ("env",), ("target",)):  # there `${X}` may be meant for the shell
            problem(f"{other} is not understood", "write ${env:NAME}")
    return _VARIABLE.sub(environment, value)


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` wins; mappings are merged, everything else is replaced."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _check(
    model: type[ModelT],
    values: Any,
    document: Document,
    base: FilePath | None,
    overrides: Mapping[Path, str],
) -> tuple[ModelT | None, list[Problem]]:
    """Types first, then the rules across fields on whatever is well typed."""
    value, partial, found = validate(model, values, base)
    wrong = {path for path, _, _ in found}
    if isinstance(partial, RunSpec):
        found += [v for v in violations(partial) if not any(_related(v[0], path) for path in wrong)]
    return (None if found else value), [_placed(document, overrides, *violation) for violation in found]


def _related(path: Path, wrong: Path) -> bool:
    """A rule about a field that was left out for its type says nothing new."""
    shared = min(len(path), len(wrong))
    return path[:shared] == wrong[:shared]


def _placed(document: Document, overrides: Mapping[Path, str], path: Path, what: str, instead: str) -> Problem:
    for length in range(len(path), 0, -1):
        if path[:length] in overrides:
            return Problem(f"--set {overrides[path[:length]]}", 0, 0, dotted(path), what, instead)
    made = [text for key, text in overrides.items() if key[: len(path)] == path] if what == "unknown field" else []
    if made:  # an override such as foo.bar=1 made the unknown foo
        return Problem(f"--set {made[0]}", 0, 0, dotted(path), what, instead)
    return Problem(document.path, *document.position(path, what == "unknown field"), dotted(path), what, instead)


def _news(found: list[Problem], told: list[Problem]) -> list[Problem]:
    """What is not a consequence of a problem already told about the same field."""
    fields = tuple(problem.field for problem in told if problem.field)
    return [problem for problem in found if not problem.field.startswith(fields)] if fields else found


def _in_order(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda p: (p.path, p.line, p.column))
