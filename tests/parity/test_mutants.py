"""Planted bugs: a suite that passes with one of them in place proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parity import checks
from parity.cases import Case
from parity.mutants import MUTANTS
from parity.pool import Pool

DDP, FSDP = {"dp_replicate": 2, "micro_batch_size": 1}, {"dp_shard": 2, "micro_batch_size": 1}
Check = Callable[[Pool, Path, Path, Path, str | None], None]


def _steps(case: Case) -> Check:
    return lambda pool, root, model, text, mutant: checks.same_steps(pool, case, mutant)


CATCHERS: dict[str, Check] = {
    "mean of rank means": _steps(Case(DDP)),
    "mean of micro-batch means": _steps(Case(DDP)),
    "accumulation off by one": _steps(Case(DDP)),
    "clip per rank": _steps(Case(FSDP, clip=0.05)),
    "loss factor left out": _steps(Case(DDP)),
    "attention crosses documents": _steps(Case(DDP)),
    "dropout seed shared over data ranks": lambda pool, root, model, text, mutant: (
        checks.dropout_differs_over_data_ranks(pool, mutant)
    ),
    "learning rate stepped per rank": lambda pool, root, model, text, mutant: checks.rates_follow_the_schedule(
        pool, root, model, text, mutant
    ),
    "sampler repeats after resume": lambda pool, root, model, text, mutant: checks.resume_is_exact(
        pool, root, model, text, {"dp_replicate": 2}, mutant
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, name: str) -> None:
    with pytest.raises(AssertionError):
        CATCHERS[name](two, tmp_path, tiny_model, tiny_text, name)
