"""JSON that was damaged, or made to hurt, is a ValueError; what is written is strict JSON."""

from __future__ import annotations

import json

import pytest

from trainwright import plain_json


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "1" * 400, b"\xff\xfe\xfa", ""])
def test_what_cannot_be_read_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        plain_json.loads(text)


def test_numbers_that_are_not_finite_are_written_as_null() -> None:
    value = {"loss": float("nan"), "lr": [1.5, float("inf"), (float("-inf"),)]}
    assert json.loads(plain_json.dumps(value)) == {"loss": None, "lr": [1.5, None, [None]]}


def test_finite_values_are_written_as_they_are() -> None:
    assert plain_json.dumps({"a": 1.0}) == '{"a": 1.0}'
