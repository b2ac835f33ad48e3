"""DeepSpeed's ZeRO computes what one process computes, in fp32."""

from __future__ import annotations

import pytest

from parity import checks
from parity.cases import Case
from parity.pool import Pool

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

pytest.importorskip("deepspeed")
#: Every parameter partitioned, small ones too.
ALL = {"deepspeed": {"zero_optimization": {"stage3_param_persistence_threshold": 0}}}


def zero(stage: int, **fields: object) -> Case:
    """A case of the tiny Llama on two ranks."""
    return Case({"dp_shard": 2, "zero": stage, "micro_batch_size": 1}, precision="fp32", lr=0.05, **fields)


CASES = {
    "zero 1": (zero(1), {}),
    "zero 2": (zero(2), {}),
    "zero 3": (zero(3), ALL),
    "zero 3, small parameters whole, untied head": (zero(3, tied=False), {}),
    "zero 2, clipped, partial last step": (zero(2, clip=0.05, samples=19), {}),
    "zero 3, full recomputation": (zero(3, recompute="full"), ALL),
    "zero 2, mixture of experts": (zero(2, model="mixtral"), {}),
    "zero 2, optimizer on the CPU": (zero(2), {"offload": {"optimizer": "cpu"}}),
}


# The first case of a pool imports DeepSpeed, which takes longer than all cases together.
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_ranks_compute_what_one_process_does(two: Pool, name: str) -> None:
    case, fields = CASES[name]
    checks.same_steps(two, case, limit=2e-5, steps=("parity.zero:steps", fields))
