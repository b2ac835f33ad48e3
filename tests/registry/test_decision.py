"""The gate: yes, no, and never a silent yes."""

from __future__ import annotations

import math

import pytest

from trainwright.registry.decision import decide


def test_no_gate_lets_pass() -> None:
    assert decide(None, {}).holds


def test_the_sentence_holds_every_number_that_was_read() -> None:
    metrics = {"eval_loss": 1.74, "baseline": 2.41, "arc": 0.31}
    yes = decide("eval_loss < baseline", metrics)
    assert (yes.holds, yes.sentence) == (True, "eval_loss < baseline holds: baseline = 2.41, eval_loss = 1.74")
    no = decide("eval_loss < baseline and arc >= 0.4", metrics)
    assert (no.holds, no.sentence) == (
        False,
        "eval_loss < baseline and arc >= 0.4 does not hold: arc = 0.31, baseline = 2.41, eval_loss = 1.74",
    )


@pytest.mark.parametrize(
    ("metrics", "why"),
    [({}, "was not measured"), ({"eval_loss": math.nan, "baseline": 2.0}, "is not a number")],
)
def test_what_cannot_be_decided_does_not_pass(metrics: dict[str, float], why: str) -> None:
    decision = decide("eval_loss < baseline", metrics)
    assert not decision.holds
    assert "cannot be decided" in decision.sentence
    assert why in decision.sentence
