"""JSON Schema of the spec, for editors and for programs that write specs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.spec.units import Amount, Duration, Size

_KINDS: dict[str, tuple[type[BaseModel], str]] = {
    "run": (RunSpec, "Trainwright run spec"),
    "site": (Site, "Trainwright site"),
}
#: Fields that may be written as their one text instead of a mapping.
_SHORTHANDS = ("Model", "Source", "Target", "Register")


class _Generator(GenerateJsonSchema):
    """Writes default quantities as people write them: ``200 steps``."""

    def encode_default(self, dft: Any) -> Any:
        return str(dft) if isinstance(dft, Amount | Duration | Size) else super().encode_default(dft)


def json_schema(kind: str = "run") -> dict[str, Any]:
    """The schema of ``run`` or ``site`` in JSON Schema 2020-12."""
    if kind not in _KINDS:
        raise InputError(
            [Problem("schema", what=f"there is no kind {kind!r}", instead=did_you_mean(kind, [*_KINDS, "plan"]))]
        )
    model, title = _KINDS[kind]
    schema = model.model_json_schema(by_alias=True, mode="validation", schema_generator=_Generator)
    for name in _SHORTHANDS:
        if name in schema.get("$defs", {}):
            schema["$defs"][name] = {"anyOf": [{"type": "string"}, schema["$defs"][name]]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}
