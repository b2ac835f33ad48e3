"""The JSON Schema in docs is the one the code exports, and the examples load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainwright.spec.load import load
from trainwright.spec.schema import json_schema
from trainwright.spec.template import template


@pytest.mark.parametrize("kind", ["run", "site"])
def test_the_schema_in_docs_is_current(repository: Path, kind: str) -> None:
    published = json.loads((repository / "docs" / f"{kind}.schema.json").read_text())
    assert published == json_schema(kind), f"run: trainwright schema {kind} --dir docs"


def test_every_example_loads_and_names_the_schema(repository: Path) -> None:
    examples = sorted((repository / "examples").glob("*/*.yaml"))
    assert examples
    for path in examples:
        load(path)
        first = path.read_text().splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema="), path
        assert (path.parent / first.partition("=")[2]).resolve() == repository / "docs" / "run.schema.json"


@pytest.mark.parametrize("name", ["a", "my-run"])
@pytest.mark.parametrize("path", ["./data", "- odd: name", "/tmp/ü", "a#b", "on"])
def test_the_template_loads_whatever_it_is_given(tmp_path: Path, name: str, path: str) -> None:
    target = tmp_path / "run.yaml"
    target.write_text(template(name, path, path))
    spec = load(target).spec
    assert spec.name == name
    assert spec.register_ is not None


def test_every_field_of_the_schema_says_what_it_means() -> None:
    schema = json_schema("run")
    sections = [schema, *schema["$defs"].values()]
    for section in sections:
        for alternative in section.get("anyOf", [section]):
            for name, field in alternative.get("properties", {}).items():
                assert field.get("description") or "$ref" in field, f"{alternative.get('title')}.{name}"
