"""Quantities read what people write and print back what reads the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.spec.units import Amount, Duration, Size


@pytest.mark.parametrize(
    ("text", "seconds", "canonical"),
    [
        ("90s", 90, "1m30s"),
        ("30m", 1800, "30m"),
        ("1h30m", 5400, "1h30m"),
        ("2 days", 172800, "2d"),
        ("0.5h", 1800, "30m"),
        ("1_000s", 1000, "16m40s"),
    ],
)
def test_durations(text: str, seconds: float, canonical: str) -> None:
    assert Duration.parse(text).seconds == seconds
    assert str(Duration.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "size", "canonical"),
    [
        ("64GiB", 64 * 2**30, "64GiB"),
        ("500MB", 500 * 10**6, "500000000B"),
        ("1.5 KiB", 1536, "1536B"),
        ("7", 7, "7B"),
    ],
)
def test_sizes(text: str, size: int, canonical: str) -> None:
    assert Size.parse(text).bytes == size
    assert str(Size.parse(text)) == canonical


@pytest.mark.parametrize(
    ("value", "amount", "canonical"),
    [
        ("200 steps", Amount(200, "steps"), "200 steps"),
        ("2e9 tokens", Amount(2e9, "tokens"), "2000000000 tokens"),
        ("1.5 epochs", Amount(1.5, "epochs"), "1.5 epochs"),
        ("30m", Amount(1800, "time"), "30m"),
        ({"steps": 5}, Amount(5, "steps"), "5 steps"),
        ({"tokens": "2e9"}, Amount(2e9, "tokens"), "2000000000 tokens"),
        ({"minutes": 10}, Amount(600, "time"), "10m"),
    ],
)
def test_amounts(value: object, amount: Amount, canonical: str) -> None:
    assert Amount.parse(value) == amount
    assert str(amount) == canonical


@pytest.mark.parametrize(
    "value",
    [
        "",
        "5",
        "steps",
        "-5 steps",
        "0 steps",
        "1.5 steps",
        "5 parsecs",
        {},
        {"steps": 1, "tokens": 2},
        {"steps": True},
    ],
)
def test_what_is_no_amount_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        Amount.parse(value)


@given(st.integers(1, 10**15))
def test_a_size_reads_back(number: int) -> None:
    assert Size.parse(str(Size(number))) == Size(number)


@given(st.integers(1, 10**8))
def test_a_duration_reads_back(seconds: int) -> None:
    assert Duration.parse(str(Duration(seconds))) == Duration(seconds)


@given(st.sampled_from(["steps", "tokens"]), st.integers(1, 10**15))
def test_an_amount_reads_back(unit: str, number: int) -> None:
    amount = Amount.parse(f"{number} {unit}")
    assert Amount.parse(str(amount)) == amount
