"""Layouts, shapes and accumulation that nobody thought of: 20 cases here, 200 by `make fuzz`."""

from __future__ import annotations

import math
import os

import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, seed, settings

from parity import checks
from parity.cases import Case, targets
from parity.drawn import cases
from parity.pool import Pool
from trainwright.models.layout import MESH_DIMENSIONS

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
    assume(all(targets(case)))
    note(f"again: make fuzz FUZZ_CASES={CASES} FUZZ_SEED={SEED}")
    ranks = math.prod(case.layout.get(name, 1) for name in MESH_DIMENSIONS)
    checks.same_steps({2: two, 4: four}[ranks], case)
