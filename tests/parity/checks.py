"""What must hold of any layout. Each check raises AssertionError; the mutation test counts on that."""

from __future__ import annotations

from typing import Any

from parity.cases import Case, reference
from parity.pool import Pool

LIMIT = 1e-12

_references: dict[str, list[dict[str, Any]]] = {}


def expected(case: Case) -> list[dict[str, Any]]:
    """The reference's steps; what is left out of the key does not change them."""
    key = repr((case.tied, case.lora, case.samples, case.batch, case.steps, case.clip, case.lr))
    if key not in _references:
        _references[key] = reference(case)
    return _references[key]


def same_steps(pool: Pool, case: Case, mutant: str | None = None, limit: float = LIMIT) -> None:
    """Loss, then each gradient, then the norm, then parameters after each step equal those of one process."""
    wanted = expected(case)
    for results in pool.run("parity.cases:steps", case, mutant=mutant):
        assert len(results) == len(wanted)
        for number, (got, want) in enumerate(zip(results, wanted, strict=True)):
            where = f"step {number}"
            assert got["tokens"] == want["tokens"], f"{where}: tokens"
            assert abs(got["loss"] - want["loss"]) <= limit * abs(want["loss"]), f"{where}: loss"
            for kind in ("gradients", "parameters"):
                assert set(got[kind]) == set(want[kind])
                for name, tensor in want[kind].items():
                    error = float((got[kind][name].double() - tensor).norm() / tensor.norm().clamp(min=1e-30))
                    assert error <= limit, f"{where}: {kind} of {name} differ by {error:.1e}"
                if kind == "gradients":
                    assert abs(got["norm"] - want["norm"]) <= limit * want["norm"], f"{where}: norm"


def dropout_differs_over_data_ranks(pool: Pool, mutant: str | None = None) -> None:
    """Ranks that see the same row drop different units; the same rank drops the same ones again."""
    case = Case(
        {"dp_replicate": pool.size, "micro_batch_size": 1}, dropout=0.3, same_rows=True, batch=pool.size, steps=2
    )
    first = pool.run("parity.cases:steps", case, mutant=mutant)
    again = pool.run("parity.cases:steps", case, mutant=mutant)
    losses = [results[0]["own"] for results in first]
    assert len(set(losses)) == pool.size, "data ranks share their dropout"
    assert [[s["own"] for s in r] for r in first] == [[s["own"] for s in r] for r in again], (
        "dropout is not repeatable"
    )
