"""Pipelines: in-flight micro-batches, bubbles, and how layers are dealt out."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.models.stages import balanced_stages
from trainwright.planner.schedule import in_flight, pipeline_seconds
from trainwright.reports.plan_pictures import slots


@given(st.integers(1, 200), st.integers(1, 64))
def test_every_layer_is_dealt_once_and_evenly(layers: int, stages: int) -> None:
    counts = balanced_stages(layers, stages)
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1


def test_the_ends_get_fewer_layers() -> None:
    assert balanced_stages(126, 128) == (0, *(1,) * 126, 0)
    assert balanced_stages(30, 4) == (7, 8, 8, 7)


def test_bubble_fractions_are_those_of_narayanan() -> None:
    """(p − 1)/m of the ideal time for GPipe and 1F1B, divided by the chunks when interleaved, by three for H1.

    H1 (Qi et al. 2024, table 1) is F + B − W of F + B + W: without weight gradients (LoRA) it is 1F1B.
    """
    p, m = 8, 32
    for schedule, chunks, fraction in (
        ("gpipe", 1, (p - 1) / m),
        ("1f1b", 1, (p - 1) / m),
        ("interleaved", 4, (p - 1) / (4 * m)),
        ("zero_bubble", 1, (p - 1) / (3 * m)),
    ):
        busy, bubble = pipeline_seconds(schedule, [1.0] * p, m, chunks)
        assert bubble / busy == pytest.approx(fraction)
    assert pipeline_seconds("zero_bubble", [1.0] * p, m, 1, 0.0) == pipeline_seconds("1f1b", [1.0] * p, m)


def test_in_flight_micro_batches() -> None:
    assert [in_flight("1f1b", s, 4, 16) for s in range(4)] == [4, 3, 2, 1]
    assert in_flight("gpipe", 0, 4, 16) == 16
    assert in_flight("1f1b", 0, 8, 2) == 2
    # Korthikanti et al. 2022: pv + p − 1 chunks on the first stage.
    assert in_flight("interleaved", 0, 8, 64, 3) == pytest.approx((8 * 3 + 7) / 3)
    assert in_flight("zero_bubble", 3, 4, 16) == 4


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 3), (4, 4), (4, 12), (8, 8)])
def test_closed_form_agrees_with_running_the_schedule(schedule: str, stages: int, micro_batches: int) -> None:
    drawn = slots(stages, micro_batches, schedule)
    end = max(start + length for start, length, *_ in drawn)
    busy, bubble = pipeline_seconds(schedule, [3.0] * stages, micro_batches)
    assert end == pytest.approx(busy + bubble)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble"])
def test_a_drawn_schedule_runs_every_block_once_and_never_two_at_a_time(schedule: str) -> None:
    stages, micro_batches = 4, 6
    drawn = slots(stages, micro_batches, schedule)
    kinds = 3 if schedule == "zero_bubble" else 2
    assert len({(s, i, k) for _, _, s, i, k in drawn}) == len(drawn) == kinds * stages * micro_batches
    for stage in range(stages):
        mine = sorted((start, start + length) for start, length, s, *_ in drawn if s == stage)
        assert all(end <= start + 1e-9 for (_, end), (start, _) in itertools.pairwise(mine))


def test_zero_bubble_is_no_slower_than_1f1b_when_drawn() -> None:
    ends = {k: max(a + b for a, b, *_ in slots(4, 8, k)) for k in ("1f1b", "zero_bubble")}
    assert ends["zero_bubble"] < ends["1f1b"]
