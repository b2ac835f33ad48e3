from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.data.counter_rng import permute, random_bits, random_uniform
from trainwright.data.order import GlobalOrder


@given(count=st.integers(1, 5000), key=st.integers(0, 2**63))
@settings(max_examples=40, deadline=None)
def test_permute_reaches_every_position_once(count: int, key: int) -> None:
    assert sorted(permute(np.arange(count), count, key).tolist()) == list(range(count))


def test_permute_of_part_of_the_positions_agrees_with_the_whole() -> None:
    whole = permute(np.arange(1000), 1000, 7)
    assert permute(np.array([3, 999, 0]), 1000, 7).tolist() == whole[[3, 999, 0]].tolist()


def test_permutations_of_four_are_all_about_equally_likely() -> None:
    seen: dict[tuple[int, ...], int] = {}
    for key in range(960):
        found = tuple(permute(np.arange(4), 4, key).tolist())
        seen[found] = seen.get(found, 0) + 1
    assert len(seen) == 24
    assert all(16 < times < 68 for times in seen.values())  # 40 expected, standard deviation 6; keys are fixed


def test_a_long_permutation_moves_neighbours_apart() -> None:
    places = permute(np.arange(20000), 20000, 1)
    assert abs(np.corrcoef(np.arange(20000), places)[0, 1]) < 0.02
    assert np.mean(np.abs(np.diff(places))) == pytest.approx(20000 / 3, rel=0.03)


def test_random_numbers_fill_the_unit_interval_evenly() -> None:
    numbers = random_uniform(3, np.arange(50_000))
    counts = np.histogram(numbers, bins=10, range=(0, 1))[0]
    assert counts.min() > 4700
    assert counts.max() < 5300
    assert len(np.unique(random_bits(3, np.arange(50_000)))) == 50_000


def test_every_epoch_shows_each_sequence_once_in_an_order_of_its_own() -> None:
    order = GlobalOrder(1500, seed=1)
    first, second = order.indices(0, 1500), order.indices(1500, 3000)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(1500))
    assert first.tolist() != second.tolist()


@given(st.lists(st.integers(0, 2500), min_size=3, max_size=3).map(sorted))
@settings(max_examples=12, deadline=None)
def test_any_slicing_gives_the_same_order(cuts: list[int]) -> None:
    a, b, c = cuts
    order, again = GlobalOrder([700, 40], seed=5, weights=[1, 2.5]), GlobalOrder([700, 40], seed=5, weights=[1, 2.5])
    parts = [*order.indices(a, b).tolist(), *order.indices(b, c).tolist()]
    assert parts == again.indices(a, c).tolist()


def test_seeds_give_different_orders() -> None:
    assert GlobalOrder(100, seed=1).indices(0, 100).tolist() != GlobalOrder(100, seed=2).indices(0, 100).tolist()


def test_without_shuffle_sequences_come_as_they_lie() -> None:
    order = GlobalOrder([3, 2], seed=9, shuffle=False)
    assert order.indices(0, 10).tolist() == [0, 1, 2, 3, 4] * 2


def test_weight_two_shows_a_source_twice_an_epoch() -> None:
    order = GlobalOrder([10, 4], seed=0, weights=[1, 2])
    assert order.epoch_length == 18
    shown = np.bincount(order.indices(0, 18), minlength=14)
    assert shown[:10].tolist() == [1] * 10
    assert shown[10:].tolist() == [2] * 4


def test_weight_one_half_shows_all_of_a_source_in_two_epochs() -> None:
    order = GlobalOrder([10, 8], seed=0, weights=[1, 0.5])
    shown = np.bincount(order.indices(0, 2 * order.epoch_length), minlength=18)
    assert shown.tolist() == [2] * 10 + [1] * 8


def test_a_source_without_sequences_is_passed_over() -> None:
    order = GlobalOrder([0, 3, 0], seed=0)
    assert sorted(order.indices(0, 3).tolist()) == [0, 1, 2]


def test_nothing_to_put_in_order_is_refused() -> None:
    with pytest.raises(ValueError, match="no sequences"):
        GlobalOrder([0], seed=0)
    with pytest.raises(ValueError, match="2 sources but 1 weights"):
        GlobalOrder([1, 1], seed=0, weights=[1])
    with pytest.raises(ValueError, match="no range"):
        GlobalOrder(3, seed=0).indices(5, 2)


def test_an_empty_range_is_empty() -> None:
    assert GlobalOrder(3, seed=0).indices(2, 2).tolist() == []


def test_the_order_is_the_same_on_every_machine_and_release() -> None:
    """A resumed run must go on with the order it began with: these numbers may never change."""
    assert GlobalOrder(10, seed=42).indices(0, 10).tolist() == [2, 0, 3, 1, 6, 4, 5, 8, 9, 7]
