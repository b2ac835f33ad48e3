"""What the parts of a spec are made of: the frozen section and the types of its fields, with their rules and schema.

Takes plain values as YAML gives them; gives checked ones. It must not know any field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema

from trainwright.spec.paths import LocalPath
from trainwright.spec.units import Amount, share_or_amount


class Section(BaseModel):
    """A part of a spec: frozen, no unknown fields, described by the text under each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True)


def named(key: str) -> BeforeValidator:
    """Let ``model: gpt2`` stand for ``model: {path: gpt2}``."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


def none_from_off(value: Any) -> Any:
    """Let ``off`` and ``none`` stand for nothing."""
    return None if value in (False, "off", "none") else value


def _count_or_auto(value: Any) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ValueError(f"is {value!r}; a whole number of at least 1, or auto, is needed")


def _module_names(value: Any) -> tuple[str, ...] | Literal["all-linear"]:
    if value == "all-linear":
        return "all-linear"
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) and name for name in value):
        return tuple(value)
    raise ValueError(f"is {value!r}; a list of module names, or all-linear, is needed")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Amount) else value


PositiveInt = Annotated[int, Field(ge=1, strict=True)]
NaturalInt = Annotated[int, Field(ge=0, strict=True)]
CountOrAuto = Annotated[
    int | Literal["auto"],
    PlainValidator(_count_or_auto, json_schema_input_type=Annotated[int, Field(ge=1)] | Literal["auto"]),
]
ModuleNames = Annotated[
    tuple[str, ...] | Literal["all-linear"],
    PlainValidator(_module_names, json_schema_input_type=list[str] | Literal["all-linear"]),
    PlainSerializer(lambda names: names if isinstance(names, str) else list(names)),
]
ShareOrAmount = Annotated[
    float | Amount,
    PlainValidator(share_or_amount, json_schema_input_type=float | str | dict[str, float]),
    PlainSerializer(_plain),
    WithJsonSchema({"type": ["number", "string", "object"], "examples": [0.03, "100 steps", "1e6 tokens"]}),
]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Number = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SecretRef(Section):
    """Where a secret is found. The value itself never enters a spec, a manifest, a log or a report."""

    env: str | None = None
    """Name of an environment variable on the machine that runs the step."""
    file: LocalPath | None = None
    """File that holds nothing but the secret."""
    kubernetes: str | None = None
    """Kubernetes Secret as ``name/key`` in the run's namespace."""
