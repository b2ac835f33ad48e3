"""The same job on another number of ranks: what stays, what changes, what is refused and what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout
from trainwright.models.refit import refit


def cut(**fields: Any) -> Layout:
    return Layout.from_dict({"micro_batch_size": 2, **fields})


@pytest.mark.parametrize(
    ("fields", "world", "batch", "changed"),
    [
        ({"dp_replicate": 3}, 2, 6, {"dp_replicate": 2, "micro_batches": 2}),
        ({"dp_replicate": 2}, 3, 4, {"dp_replicate": 3}),
        ({"dp_replicate": 3, "micro_batches": 2}, 2, 12, {"dp_replicate": 2, "micro_batches": 3}),
        ({"dp_shard": 4, "tp": 2}, 6, 8, {"dp_shard": 3, "micro_batches": 2}),
        ({"dp_shard": 2}, 1, 4, {"dp_shard": 1, "zero": 0, "micro_batches": 2}),
        ({"dp_replicate": 3, "dp_shard": 2, "zero": 3}, 4, 12, {"dp_replicate": 2, "micro_batches": 2}),
        ({"dp_replicate": 2, "dp_shard": 2, "zero": 3}, 3, 8,
         {"dp_replicate": 1, "dp_shard": 3, "micro_batches": 2}),
        ({"pp": 2, "dp_replicate": 4, "schedule": "interleaved", "micro_batches": 2}, 6, 16, {"dp_replicate": 3,
          "micro_batches": 4}),
    ],
)  # fmt: skip
def test_data_ranks_take_what_is_left_and_the_batch_stays(
    fields: dict[str, Any], world: int, batch: int, changed: dict[str, Any]
) -> None:
    before = cut(**fields)
    after = refit(before, world, batch)
    assert after.world_size == world
    assert after == before.with_(**changed)
    assert after.global_batch_size >= batch


def test_what_fits_already_is_left_alone() -> None:
    layout = cut(dp_replicate=2)
    assert refit(layout, 2, 4) is layout


@pytest.mark.parametrize(
    ("fields", "world", "batch", "why", "way_out"),
    [
        ({"dp_replicate": 2, "tp": 2, "pp": 2}, 6, 8, "pp · cp · tp is 4", "start 4 or 8 ranks"),
        ({"dp_replicate": 2, "tp": 2}, 1, 4, "pp · cp · tp is 2", "start 2 ranks"),
        ({"dp_shard": 4, "ep": 4}, 6, 16, "ep: is 4, which does not divide", "start 4 or 8 ranks"),
        ({"dp_replicate": 2}, 5, 4, "more than the 4 sequences", "start 4 ranks"),
        ({"dp_replicate": 2}, 0, 4, "must be a multiple", "start 1 ranks"),
    ],
)
def test_what_cannot_be_is_refused_with_the_nearest_legal_numbers(
    fields: dict[str, Any], world: int, batch: int, why: str, way_out: str
) -> None:
    with pytest.raises(AnswerNo) as refused:
        refit(cut(**fields), world, batch)
    assert why in refused.value.message
    assert refused.value.way_out == way_out
