"""What one context rank after the other computes of a sequence is what attention over all of it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainwright.data.batch import IGNORED, Batch
from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout
from trainwright.training import attention
from trainwright.training.batches import device_mover
from trainwright.training.parallel import context
from trainwright.training.zigzag import ZigZag

LENGTH, RANKS = 24, 3


@dataclass
class Whole:
    """A context that has all keys already."""

    cut: ZigZag

    def gather(self, keys: Tensor) -> Tensor:
        """As they are."""
        return keys


def attend(query: Tensor, key: Tensor, value: Tensor, window: int, **fields: Any) -> Tensor:
    documents = attention.Documents(**fields)
    given = {attention.ARGUMENT: documents, "sliding_window": window}
    return attention.attend(nn.Identity(), query, key, value, None, **given)[0]


@pytest.mark.parametrize("window", [0, 5, 100])
@pytest.mark.parametrize("packed", [False, True], ids=["one document", "packed"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])
def test_chunks_of_queries_see_the_keys_that_they_would_see_together(causal: bool, packed: bool, window: int) -> None:
    torch.manual_seed(1)
    query = torch.randn(2, 6, LENGTH, 4, dtype=torch.float64)
    key, value = torch.randn(2, 2, 2, LENGTH, 4, dtype=torch.float64)
    ids = torch.tensor([[0] * 7 + [1] * 9 + [2] * 8, [0] * 20 + [-1] * 4]) if packed else None
    together = attend(query, key, value, window, ids=ids, causal=causal)
    for rank in range(RANKS):
        cut = ZigZag(rank, RANKS)
        places = torch.from_numpy(cut.places(LENGTH))
        part = attend(query[:, :, places], key, value, window, ids=ids, causal=causal, context=Whole(cut))
        assert torch.allclose(part, together[:, places], rtol=0, atol=1e-14)


def test_ranks_share_out_all_positions_with_equal_work() -> None:
    held = [ZigZag(rank, 4).places(16) for rank in range(4)]
    assert held[1].tolist() == [2, 3, 12, 13]
    assert sorted(np.concatenate(held).tolist()) == list(range(16))
    assert len({int(places.sum()) for places in held}) == 1


def test_a_rank_gets_its_positions_with_their_numbers_and_targets() -> None:
    ids = np.arange(100, 110)[None]
    batch = Batch(
        ids, np.where(ids % 3, ids + 1, IGNORED), np.arange(10)[None], np.zeros((1, 10), np.int64), np.arange(1)
    )
    parts = [device_mover(torch.device("cpu"), True, context=ZigZag(rank, 2), multiple=3)(batch) for rank in (0, 1)]
    # Ten positions become twelve, in four chunks; what was added is no document, so a mask is needed.
    assert parts[0].position_ids.tolist() == [[0, 1, 2, 9, 0, 0]]
    assert parts[1].input_ids.tolist() == [[103, 104, 105, 106, 107, 108]]
    assert parts[1].document_ids is not None
    assert parts[1].document_ids.tolist() == [[0] * 10 + [-1] * 2]
    assert parts[1].targets.tolist() == [0, 1, 3, 4]
    assert parts[1].labels.tolist() == [104, 105, 107, 108]
    assert sum(len(part.labels) for part in parts) == batch.valid_tokens


def test_what_cannot_be_cut_by_positions_is_refused_with_every_reason() -> None:
    found = context.refusals(Layout(cp=2), "flash", sentence_pairs=True)
    assert [right for _, right in found] == ["attention: sdpa", "cp: 1"]
    with pytest.raises(AnswerNo, match=r"cp=2: the flash kernel .*; cp=2: a row's label"):
        context.apply(Layout(cp=2), None, "flash", sentence_pairs=True)  # type: ignore[arg-type]  # refused before
