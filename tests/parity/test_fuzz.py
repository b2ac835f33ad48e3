"""Layouts, shapes and accumulation that nobody thought of: 20 cases here, 200 by `make fuzz`."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings

from parity import checks
from parity.cases import Case
from parity.drawn import cases
from parity.pool import Pool

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

CASES = int(os.environ.get("TRAINWRIGHT_FUZZ_CASES", "20"))
SEED = int(os.environ.get("TRAINWRIGHT_FUZZ_SEED", "1"))


@seed(SEED)
@settings(
    max_examples=CASES, deadline=None, database=None, suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)  # fmt: skip
@given(case=cases())
def test_any_legal_layout_computes_what_one_process_does(two: Pool, four: Pool, case: Case) -> None:
    note(f"again: make fuzz FUZZ_CASES={CASES} FUZZ_SEED={SEED}")
    size = 1
    for name in ("pp", "dp_replicate", "dp_shard", "cp", "tp"):
        size *= case.layout.get(name, 1)
    # Rows without targets everywhere make gradients of nothing, where only rounding could be compared.
    checks.same_steps(two if size == 2 else four, case, limit=2e-12)
