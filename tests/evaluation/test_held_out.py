"""Held-out loss: every sequence counts once, whatever the ranks, batches and limits."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from trainwright.evaluation.held_out import HeldOut, choose, held_out, perplexity, share, sum_over_group

Row = list[float]


def losses_of(batch: list[Row]) -> tuple[float, int]:
    return sum(map(sum, batch)), sum(map(len, batch))


def rows(count: int) -> list[Row]:
    source = random.Random(count)
    return [[source.uniform(0, 9) for _ in range(source.randrange(0, 7))] for _ in range(count)]


def over_ranks(
    sequences: Sequence[Row], ranks: int, batch_size: int, at_most: int | None = None
) -> list[HeldOut | None]:
    """Run every rank one after the other: first to collect its totals, then with their sum."""
    parts: list[tuple[float, float]] = []
    calls: list[int] = []

    def run(rank: int, summed: tuple[float, float] | None) -> HeldOut | None:
        counted = 0

        def counting(batch: list[Row]) -> tuple[float, int]:
            nonlocal counted
            counted += 1
            assert batch, "a model cannot run on an empty batch"
            return losses_of(batch)

        def sum_over(totals: tuple[float, float]) -> tuple[float, float]:
            parts.append(totals)
            return summed or totals

        result = held_out(
            sequences, list, counting, batch_size=batch_size, at_most=at_most,
            data_rank=rank, data_ranks=ranks, sum_over_ranks=sum_over,
        )  # fmt: skip
        calls.append(counted)
        return result

    for rank in range(ranks):
        run(rank, None)
    assert len(set(calls)) == 1, "ranks that run the model different numbers of times hang in collectives"
    summed = (sum(part[0] for part in parts), sum(part[1] for part in parts))
    return [run(rank, summed) for rank in range(ranks)]


@pytest.mark.parametrize("count", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_every_token_counts_once_on_any_number_of_ranks(count: int, ranks: int, batch_size: int) -> None:
    sequences = rows(count)
    every = [loss for row in sequences for loss in row]
    for result in over_ranks(sequences, ranks, batch_size):
        assert result is not None
        assert result.eval_tokens == len(every)
        assert result.eval_loss == pytest.approx(sum(every) / len(every), rel=1e-12)


def test_mean_is_over_tokens_not_over_batches() -> None:
    result = held_out([[9.0], [1.0, 1.0, 1.0]], list, losses_of, batch_size=1)
    assert result is not None
    assert result.eval_loss == 3.0


def test_limit_is_spread_over_all_sequences_and_repeats_none() -> None:
    assert choose(10, 4) == [0, 2, 5, 7]
    assert choose(3, 7) == [0, 1, 2]
    assert len(set(choose(1000, 999))) == 999
    limited = over_ranks([[1.0]] * 3 + [[5.0]] * 3, ranks=2, batch_size=1, at_most=2)
    assert limited[0] == limited[1]
    assert limited[0] is not None
    assert (limited[0].eval_loss, limited[0].eval_tokens) == (3.0, 2)


def test_shares_cover_the_chosen_exactly() -> None:
    parts = [share(range(11), rank, 3, 2) for rank in range(3)]
    assert {len(part) for part in parts} == {2}
    assert sorted(number for part in parts for batch in part for number in batch) == list(range(11))


def test_nothing_to_measure_is_none_not_zero() -> None:
    assert held_out([], list, losses_of, batch_size=4) is None
    assert held_out([[], []], list, losses_of, batch_size=4) is None


def test_bits_per_byte_are_bits_per_token_over_bytes_per_token() -> None:
    result = held_out([[math.log(2.0) * 8]], list, losses_of, batch_size=1, bytes_per_token=4.0)
    assert result is not None
    assert result.bits_per_byte == pytest.approx(2.0)
    assert result.perplexity == pytest.approx(256.0)


def test_perplexity_of_a_hopeless_model_is_infinite_not_an_error() -> None:
    assert perplexity(1e6) == math.inf


def test_tensors_are_summed_in_double_precision() -> None:
    torch = pytest.importorskip("torch")

    def in_single(batch: list[float]) -> tuple[object, object]:
        return torch.tensor(batch, dtype=torch.float32).sum(), torch.tensor(len(batch))

    # 2^24 + 1 does not exist in single precision: a running sum in fp32 would lose every later 1.
    result = held_out([2.0**24, *[1.0] * 8], list, in_single, batch_size=1)
    assert result is not None
    assert result.eval_loss * 9 == pytest.approx(2.0**24 + 8, abs=1e-6)


def test_group_sum_over_a_real_process_group() -> None:
    dist = pytest.importorskip("torch.distributed")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        assert sum_over_group()((1.5, 3.0)) == (1.5, 3.0)
    finally:
        dist.destroy_process_group()
