"""What must hold of any layout. Each check raises AssertionError; the mutation test counts on that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parity.cases import Case, reference
from parity.pool import Pool
from training.tiny import make_run
from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan
from trainwright.spec.model import Schedule
from trainwright.training.schedules import phases, ratio

LIMIT = 1e-12

_references: dict[str, list[dict[str, Any]]] = {}


def expected(case: Case) -> list[dict[str, Any]]:
    """The reference's steps; what is left out of the key does not change them."""
    shape = (case.model, case.fields, case.tied, case.layers, case.lora)
    key = repr((shape, case.samples, case.batch, case.steps, case.clip, case.lr))
    if key not in _references:
        _references[key] = reference(case)
    return _references[key]


def same_steps(
    pool: Pool,
    case: Case,
    mutant: str | None = None,
    limit: float = LIMIT,
    steps: tuple[Any, ...] = ("parity.cases:steps",),
) -> None:
    """Loss, then each gradient, then the norm, then parameters after each step equal those of one process.

    ``steps`` is what the ranks run, and its arguments after the case.
    """
    wanted = expected(case)
    answers = pool.run(steps[0], case, *steps[1:], mutant=mutant)
    for results in answers:
        assert len(results) == len(wanted)
        for number, (got, want) in enumerate(zip(results, wanted, strict=True)):
            where = f"step {number}"
            assert got["tokens"] == want["tokens"], f"{where}: tokens"
            assert abs(got["loss"] - want["loss"]) <= limit * abs(want["loss"]), f"{where}: loss"
            # Some gradients are zero but for rounding: that of keys' biases, which move all scores of a query alike.
            least = {"gradients": 1e-3 * want["norm"], "parameters": 1e-30}
            for kind in ("gradients", "parameters"):
                anywhere = {name for others in answers for name in others[number][kind]}
                assert anywhere == set(want[kind])
                assert case.layout.get("pp", 1) > 1 or set(got[kind]) == anywhere
                for name in got[kind]:
                    tensor = want[kind][name]
                    error = float((got[kind][name].double() - tensor).norm() / tensor.norm().clamp(min=least[kind]))
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


def resume_is_exact(
    pool: Pool,
    root: Path,
    model: Path,
    text: Path,
    layout: dict[str, int],
    mutant: str | None = None,
    *,
    then: dict[str, int] | None = None,
    limit: float = 0.0,
    **fields: object,
) -> None:
    """Losses, norms and rates of a run stopped in the middle and resumed equal those of one that was not stopped."""
    whole = make_run(root / "whole" / "tiny-00000001", model, text, layout=layout, **fields)
    parted = make_run(root / "parted" / "tiny-00000001", model, text, layout=layout, **fields)
    wanted = pool.run("parity.cases:train_run", str(whole.root), 1)[0]
    got = pool.run("parity.cases:train_run", str(parted.root), 1, 2, mutant=mutant)[0]
    steps_before = [line["step"] for line in got if line["kind"] == "step"]
    assert 2 <= steps_before[-1] < 6, "the run was not stopped in its middle"
    if then is not None:
        cut = Layout.from_dict({"micro_batch_size": 2, **then})
        parted.plan_file.write_text(Plan(spec_sha256=parted.spec().sha256, layout=cut, machine="test").to_json())
    got += pool.run("parity.cases:train_run", str(parted.root), 2, mutant=mutant)[0]
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        for name in ("kind", "step", "samples", "tokens", "lr", "skipped", "eval_tokens"):
            assert one.get(name) == other.get(name), f"step {other['step']}: {name}"
        for name in ("loss", "grad_norm", "eval_loss"):
            if other.get(name) is None:  # a skipped step has no norm
                assert one.get(name) is None, f"step {other['step']}: {name}"
            else:
                assert abs(one[name] - other[name]) <= limit * abs(other[name]), f"step {other['step']}: {name}"


def rates_follow_the_schedule(pool: Pool, root: Path, model: Path, text: Path, mutant: str | None = None) -> None:
    """The rate of each step is the schedule's, whatever the number of ranks."""
    run = make_run(root / "tiny-00000002", model, text, layout={"dp_replicate": 2}, schedule={"warmup": "2 steps"})
    lines = pool.run("parity.cases:train_run", str(run.root), 1, mutant=mutant)[0]
    schedule = Schedule.model_validate({"warmup": "2 steps"})
    at = ratio(schedule, phases(schedule, 6, 1))
    assert [line["lr"] for line in lines if line["kind"] == "step"] == [1e-2 * at(step) for step in range(6)]
