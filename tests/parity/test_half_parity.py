"""bf16 over ranks is as near to the truth as bf16 on one rank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from parity import checks
from parity.cases import Case
from parity.pool import Pool

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

#: One step: CPUs compute bf16 slowly.
ONE = Case({"micro_batch_size": 1}, precision="bf16", samples=8, layers=2, lr=0.05)
LAYOUTS: dict[str, dict[str, Any]] = {
    "ddp": {"dp_replicate": 2},
    "zero 1": {"dp_shard": 2, "zero": 1},
    "zero 3": {"dp_shard": 2},
    "tp": {"tp": 2},
    "sp": {"tp": 2, "sequence_parallel": True},
    "cp": {"cp": 2},
    "pp": {"pp": 2},
    "ep": {"dp_shard": 2, "ep": 2},
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_errors_are_at_most_twice_those_of_one_rank(one: Pool, two: Pool, name: str) -> None:
    model = "mixtral" if name == "ep" else "llama"
    alone = replace(ONE, model=model)
    case = replace(alone, layout={"micro_batch_size": 1, **LAYOUTS[name]})
    (truth,) = checks.expected(replace(alone, precision="fp64"))
    of_one = error(one.run("parity.cases:steps", alone), truth)
    of_two = error(two.run("parity.cases:steps", case), truth)
    assert 1e-4 < of_one < 0.1, "nothing was computed in bf16"
    assert of_two <= 2 * of_one


def error(answers: list[list[dict[str, Any]]], truth: dict[str, Any]) -> float:
    """Of the whole gradient, relative; of the worst rank. A stage has its own part."""
    gradients: dict[str, list[torch.Tensor]] = {}
    for results in answers:
        for name, gradient in results[0]["gradients"].items():
            gradients.setdefault(name, []).append(gradient)
    assert set(gradients) == set(truth["gradients"])
    squares = sum(
        max(float((one.double() - truth["gradients"][name]).square().sum()) for one in held)
        for name, held in gradients.items()
    )
    return float(squares**0.5 / truth["norm"])
