"""The gate reads comparisons of metrics and nothing else."""

from __future__ import annotations

import pytest

from trainwright.errors import InputError
from trainwright.spec.gate import GateError, parse_gate
from trainwright.spec.load import spec_from_values


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("eval_loss < baseline", True),
        ("eval_loss < baseline - 1", False),
        ("arc >= 0.4 and eval_loss < 2.1", True),
        ("not arc >= 0.4 or eval_loss == 2", True),
        ("0 < arc < 0.4", False),
        ("eval_loss < baseline / 0.9", True),
    ],
)
def test_a_condition_is_decided(text: str, holds: bool) -> None:
    assert parse_gate(text).holds({"eval_loss": 2.0, "baseline": 2.5, "arc": 0.5}) is holds


NO_CONDITION = """
eval_loss
1 < 2
__import__('os').system('x') < 1
a.b < 1
a[0] < 1
x < 'a'
a < b if c else d
lambda: 1
x < 1; y
(x := 1) < 2
x ** 99 < 1
""".splitlines()


@pytest.mark.parametrize("text", [*NO_CONDITION, "a" * 600 + " < 1", "(" * 300])
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(GateError):
        parse_gate(text)


def test_a_metric_that_was_not_measured_is_never_a_silent_yes() -> None:
    with pytest.raises(GateError, match="arc was not measured"):
        parse_gate("arc > 0").holds({})
    with pytest.raises(GateError, match="arc is not a number"):
        parse_gate("not arc > 0").holds({"arc": float("nan")})
    with pytest.raises(GateError, match="divides by zero"):
        parse_gate("arc / zero > 0").holds({"arc": 1, "zero": 0})


def test_a_masked_model_has_no_bits_per_byte_to_decide_by() -> None:
    values = {"name": "t", "model": "./m", "objective": "masked", "data": {"sources": ["./x"]}}
    spec_from_values({**values, "evaluate": {"gate": "eval_loss < baseline"}})
    with pytest.raises(InputError, match="names bits_per_byte, which nothing measures; use eval_loss, perplexity"):
        spec_from_values({**values, "evaluate": {"gate": "bits_per_byte < 1"}})
