from __future__ import annotations

import numpy as np
import pytest

from trainwright.data.batch import collate
from trainwright.data.sequences import Sequence


def sequence(ids: list[int], documents: list[int], loss: list[int] | None = None, index: int = 0) -> Sequence:
    mask = np.array([1] * len(ids) if loss is None else loss, bool)
    return Sequence(np.array(ids, np.int32), mask, np.array(documents, np.int32), index)


def test_labels_are_the_next_token_of_the_same_document() -> None:
    batch = collate([sequence([5, 6, 7, 8, 9], [0, 0, 0, 1, 1])])
    assert batch.labels.tolist() == [[6, 7, -100, 9, -100]]


def test_a_token_that_does_not_count_is_no_target_but_stays_input() -> None:
    batch = collate([sequence([5, 6, 7, 8], [0, 0, 0, 0], [0, 0, 1, 1])])
    assert batch.labels.tolist() == [[-100, 7, 8, -100]]
    assert batch.input_ids.tolist() == [[5, 6, 7, 8]]
    assert batch.valid_tokens == 2


def test_positions_restart_in_each_document() -> None:
    batch = collate([sequence([1, 2, 3, 4, 5, 6], [0, 0, 1, 2, 2, 2])])
    assert batch.position_ids.tolist() == [[0, 1, 0, 0, 1, 2]]


def test_padding_has_no_document_no_target_and_the_pad_token() -> None:
    batch = collate([sequence([1, 2], [0, 0], index=4), sequence([3, 4, 5], [0, 1, 1], index=9)], length=4, pad_id=7)
    assert batch.input_ids.tolist() == [[1, 2, 7, 7], [3, 4, 5, 7]]
    assert batch.document_ids.tolist() == [[0, 0, -1, -1], [0, 1, 1, -1]]
    assert batch.labels.tolist() == [[2, -100, -100, -100], [-100, 5, -100, -100]]
    assert batch.samples.tolist() == [4, 9]


def test_without_a_length_the_longest_sequence_decides() -> None:
    assert collate([sequence([1], [0]), sequence([1, 2, 3], [0, 0, 0])]).input_ids.shape == (2, 3)


def test_all_arrays_are_int64() -> None:
    batch = collate([sequence([1, 2], [0, 0])])
    kinds = {a.dtype for a in (batch.input_ids, batch.labels, batch.position_ids, batch.document_ids, batch.samples)}
    assert kinds == {np.dtype(np.int64)}


def test_a_sequence_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="3 tokens does not fit in 2"):
        collate([sequence([1, 2, 3], [0, 0, 0])], length=2)
    with pytest.raises(ValueError, match="at least one"):
        collate([])
