"""Manifests read back to the values that went in, whatever these are, and say why beside them."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainwright.targets.kubernetes.manifest import documents, plain, why, without_none

# what a spec can hold: any text but lone surrogates and what no environment variable carries
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SCALARS = st.none() | st.booleans() | st.integers() | TEXT
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4))


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5))
def test_any_value_is_read_back(value: dict[str, object]) -> None:
    assert yaml.safe_load(documents([value], "head")) == value


@given(TEXT)
def test_any_text_is_read_back_behind_a_key_in_a_list_and_under_a_reason(text: str) -> None:
    value = {"key": why(text, "reason"), "list": [text, why(text, "reason")], "items": [{"name": text}]}
    assert yaml.safe_load(documents([value])) == plain(value)


def test_reasons_stand_beside_their_values() -> None:
    value = {
        "a": why(1, "one"),
        "m": why({"x": "z"}, "a mapping"),
        "l": [why({"name": "w"}, "an item"), why("w", "a word")],
        "code": why("line 1\n  line 2\n", "a block"),
        "words": why(["--flag", "2", "on"], "words"),
    }
    assert documents([value]).splitlines() == [
        "a: 1  # one", "m:  # a mapping", "  x: z", "l:", "  # an item", "  - name: w", "  - w  # a word",
        "code: |  # a block", "  line 1", "    line 2", 'words: [--flag, "2", "on"]  # words',
    ]  # fmt: skip


def test_several_objects_are_documents_of_one_file_under_its_heading() -> None:
    text = documents([{"a": 1}, {"b": []}], "first\n\nsecond")
    assert text == "# first\n#\n# second\na: 1\n---\nb: []\n"
    assert list(yaml.safe_load_all(text)) == [{"a": 1}, {"b": []}]


def test_what_is_none_is_not_written() -> None:
    assert without_none({"a": None, "b": 0, "c": []}) == {"b": 0, "c": []}
