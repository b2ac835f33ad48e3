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
PP = {"pp": 2, "micro_batch_size": 1}
TP, CP = {"tp": 2, "micro_batch_size": 1}, {"cp": 2, "micro_batch_size": 1}
SP = {**TP, "sequence_parallel": True}
EP = {"dp_shard": 2, "ep": 2, "micro_batch_size": 1}
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
    "pipeline divides by micro-batches": _steps(Case(PP)),
    "tied gradient of one end only": _steps(Case(PP)),
    "tied gradient counted twice": _steps(Case(PP)),
    "norm of one stage": _steps(Case(PP, clip=0.05)),
    "tied embedding twice in the norm": _steps(Case(PP)),
    "loss over padding": _steps(Case(PP)),
    "expert gradients times ep": _steps(Case(EP, model="mixtral")),
    "norm of one rank's experts": _steps(Case(EP, model="mixtral", clip=0.05)),
    "balancing loss times data ranks": _steps(Case(EP, model="mixtral")),
    "balancing loss of a micro-batch": _steps(Case({**EP, "micro_batch_size": 2}, model="mixtral")),
    "balancing loss over padding": _steps(Case({**EP, "micro_batch_size": 2}, model="mixtral")),
    "gradients of split positions are not summed": _steps(Case(SP)),
    "norm counts what tensor ranks hold alike twice": _steps(Case(SP, clip=0.05)),
    "padding of the vocabulary in the loss": _steps(Case(TP)),
    "softmax over this rank's tokens": _steps(Case(TP)),
    "cut adapters are scaled": _steps(Case(TP, lora=True)),
    "gradient of a region's input is not summed": _steps(Case(TP)),
    "rotary positions start anew on each rank": _steps(Case(CP)),
    "gradients of gathered keys are not summed": _steps(Case(CP)),
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


#: Bugs of data parallelism, caught in the fast suite; the others take as long as the parity of their dimension.
FAST = {
    "mean of rank means", "mean of micro-batch means", "accumulation off by one", "clip per rank",
    "loss factor left out", "attention crosses documents", "dropout seed shared over data ranks",
    "learning rate stepped per rank", "sampler repeats after resume",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.parity) for n in MUTANTS])
def test_a_planted_bug_is_caught(two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, name: str) -> None:
    with pytest.raises(AssertionError):
        CATCHERS[name](two, tmp_path, tiny_model, tiny_text, name)
