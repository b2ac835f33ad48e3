"""The samples of a step: the same whatever the ranks, in order, none twice."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainwright.data.objectives import CausalObjective
from trainwright.data.order import GlobalOrder
from trainwright.data.sequences import Sequence
from trainwright.training.batches import Batches, Slicing, device_mover, step_samples
from trainwright.training.duration import Horizon
from trainwright.training.mesh import DataRanks


def rows(count: int, length: int = 6) -> list[Sequence]:
    ones = np.ones(length, bool)
    return [Sequence(np.full(length, i + 1, np.int32), ones, np.zeros(length, np.int32), i) for i in range(count)]


def open_batches(rank: int, ranks: int, micro: int, samples: int, batch: int, first: int = 0) -> Batches:
    end = Horizon(-(-samples // batch), samples, batch, 6)
    data = DataRanks(rank, ranks, True, None)
    mover = device_mover(torch.device("cpu"), True)
    return Batches(
        rows(samples), GlobalOrder(samples, 1), CausalObjective(0), Slicing(data, micro), end, mover, first
    )


@pytest.mark.parametrize(("ranks", "micro"), [(1, 1), (1, 8), (2, 1), (2, 3), (4, 2), (3, 2)])
def test_every_step_holds_the_same_samples_whatever_the_ranks(ranks: int, micro: int) -> None:
    order = GlobalOrder(29, 1)
    every = [list(open_batches(rank, ranks, micro, 29, 8)) for rank in range(ranks)]
    for step in range(4):
        start, stop = step_samples(Horizon(4, 29, 8, 6), step)
        seen = sorted(s for batches in every for part in batches[step].samples for s in part)
        assert seen == sorted(order.indices(start, stop).tolist())
        rounds = {len(batches[step].micro_batches) for batches in every}
        assert len(rounds) == 1, "ranks disagree on the number of micro-batches"
    assert sum(batches[step].valid_tokens for batches in every for step in range(4)) == 29 * 5


def test_a_rank_without_samples_left_brings_no_targets_and_no_tokens() -> None:
    last = list(open_batches(1, 2, 4, 17, 8))[-1]
    assert last.rows == 1
    assert (last.valid_tokens, last.tokens, last.samples) == (0, 0, ((),))
    assert last.micro_batches[0].targets.numel() == 0


def test_a_restart_goes_on_where_it_was() -> None:
    whole, rest = list(open_batches(0, 2, 2, 40, 8)), list(open_batches(0, 2, 2, 40, 8, first=3))
    assert [batch.samples for batch in rest] == [batch.samples for batch in whole[3:]]


def test_an_error_while_making_a_batch_reaches_the_trainer() -> None:
    def broken(sequences: object, samples: object = None) -> None:
        raise ValueError("bad shard")

    end, data = Horizon(2, 8, 4, 6), DataRanks(0, 1, True, None)
    batches = Batches(rows(8), GlobalOrder(8, 1), broken, Slicing(data, 4), end, lambda batch: None)
    with pytest.raises(ValueError, match="bad shard"):
        next(iter(batches))


def test_closing_ends_the_thread_in_the_middle() -> None:
    batches = open_batches(0, 1, 1, 4000, 4)
    next(iter(batches))
    batches.close()
    assert not batches._thread.is_alive()


def test_documents_are_left_out_where_causality_says_it_all() -> None:
    batch = next(iter(open_batches(0, 1, 2, 4, 4)))
    assert batch.micro_batches[0].document_ids is None
    packed = [Sequence(np.arange(1, 7, dtype=np.int32), np.ones(6, bool), np.array([0, 0, 1, 1, 1, 2], np.int32), 0)]
    moved = device_mover(torch.device("cpu"), True, flash=True)(CausalObjective(0, 8)(packed))
    assert moved.document_ids is not None
    assert moved.boundaries is not None
    assert moved.boundaries.tolist() == [0, 2, 5, 6, 8]
    assert moved.longest == 3
    assert moved.targets.tolist() == [0, 2, 3]
    assert moved.labels.tolist() == [2, 4, 5]
