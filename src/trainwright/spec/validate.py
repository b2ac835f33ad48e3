"""Turn pydantic's errors into sentences: which field, what is wrong with it, what would be right."""

from __future__ import annotations

import copy
import types
import typing
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainwright.errors import did_you_mean
from trainwright.spec.yaml_reader import Path, dotted

ModelT = TypeVar("ModelT", bound=BaseModel)
Violation = tuple[Path, str, str]


def validate(
    model: type[ModelT], values: Any, base: FilePath | None
) -> tuple[ModelT | None, ModelT | None, list[Violation]]:
    """Check plain values against a model.

    Returns (value, or None if anything is wrong; a value made by leaving the wrong fields out, so that the rules
    across fields can still be checked, or None if that is not possible; everything wrong).
    """
    context = {"base": str(base)} if base is not None else {}
    try:
        value = model.model_validate(values, context=context)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    else:
        return value, value, []
    found = [_sentence(model, item) for item in errors]
    paths = {path for path, _, _ in found}
    inner = {path[:length] for path in paths for length in range(len(path))}
    found = [item for item in found if item[0] not in inner]  # "too short" because its only item is wrong
    return None, _without(model, values, [path for path, _, _ in found], context), found


def _without(model: type[ModelT], values: Any, paths: list[Path], context: dict[str, str]) -> ModelT | None:
    if not isinstance(values, dict):
        return None
    remaining = copy.deepcopy(values)
    for path in sorted(set(paths), key=len, reverse=True):
        parent = _follow(remaining, path[:-1])
        if isinstance(parent, dict) and path:
            parent.pop(path[-1], None)
    if "name" in model.model_fields:
        remaining.setdefault("name", "unnamed")
    for _ in range(2):  # a section that lost a required field goes as a whole
        try:
            return model.model_validate(remaining, context=context)
        except ValidationError as error:
            for item in error.errors(include_url=False):
                remaining.pop(str(item["loc"][0]) if item["loc"] else "", None)
    return None


def _follow(value: Any, path: Path) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _sentence(model: type[BaseModel], error: Any) -> Violation:
    path: Path = error["loc"]
    kind, given, details = error["type"], error.get("input"), error.get("ctx", {})
    name = str(path[-1]) if path else ""
    if kind == "extra_forbidden":
        return path, "unknown field", _nearest_field(model, path)
    if kind == "missing":
        return path, "is missing", f"add {name}: …"
    if kind == "literal_error":
        choices = details["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return path, f"is {_shown(given)}", did_you_mean(str(given), choices)
    if kind == "value_error":
        what, _, instead = str(details["error"]).partition("; ")
        return path, what, instead
    if kind == "string_pattern_mismatch":
        return path, f"is {_shown(given)}", _pattern_hint(details["pattern"])
    wanted = {
        "int_type": "a whole number is needed",
        "int_parsing": "a whole number is needed",
        "int_from_float": "a whole number is needed",
        "float_type": "a number is needed",
        "float_parsing": "a number is needed",
        "finite_number": "a finite number is needed",
        "string_type": "text is needed; quote it" if isinstance(given, int | float | bool) else "text is needed",
        "bool_type": "true or false is needed",
        "bool_parsing": "true or false is needed",
        "tuple_type": "a list is needed",
        "dict_type": "a mapping is needed",
        "model_type": "a mapping of fields is needed",
        "model_attributes_type": "a mapping of fields is needed",
    }.get(kind)
    if wanted is None:
        wanted = _from_bounds(kind, details) or str(error["msg"])
    return path, f"is {_shown(given)}", wanted


def _from_bounds(kind: str, details: dict[str, Any]) -> str | None:
    for bound, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        if bound in details:
            return f"a number of {words} {details[bound]} is needed"
    if kind == "too_long":
        return f"at most {details['max_length']} entries are allowed"
    if kind == "too_short":
        return f"at least {details['min_length']} is needed"
    if kind == "string_too_long":
        return f"at most {details['max_length']} characters are allowed"
    return None


def _pattern_hint(pattern: str) -> str:
    marks = ". _ -" if "._" in pattern else "-"
    return f"lower-case letters, digits and {marks} are allowed, with a letter or digit at both ends"


def _shown(value: Any) -> str:
    text = "empty" if value is None else repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def _nearest_field(model: type[BaseModel], path: Path) -> str:
    section = _section_at(model, path[:-1])
    if section is None:
        return "remove it"
    names = [field.alias or name for name, field in section.model_fields.items()]
    word = str(path[-1])
    hint = did_you_mean(word, names)
    if hint.startswith("did you mean"):
        return hint
    elsewhere = [dotted(found) for found in _all_fields(model) if found[-1] == word]
    return f"did you mean {elsewhere[0]}?" if elsewhere else hint


def _section_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        if current is None:
            return None
        field = next((f for n, f in current.model_fields.items() if part in (n, f.alias)), None)
        current = _section_in(field.annotation) if field else None
    return current


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """The section a field's type holds, through Annotated, Optional and tuples."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType, tuple):
        for inner in typing.get_args(annotation):
            found = _section_in(inner)
            if found:
                return found
    return None


def _all_fields(model: type[BaseModel], prefix: Path = ()) -> list[Path]:
    found: list[Path] = []
    for name, field in model.model_fields.items():
        path = (*prefix, field.alias or name)
        found.append(path)
        section = _section_in(field.annotation)
        if section and len(path) < 4:
            found += _all_fields(section, path)
    return found
