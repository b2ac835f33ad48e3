"""Sequences → one batch of rectangular arrays, for next-token prediction.

Labels are shifted here, before any slicing over ranks, and no target lies across a document boundary.
Gives numpy arrays; it knows neither devices nor ranks.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np

from trainwright.data.counter_rng import Int64Array
from trainwright.data.sequences import Sequence

IGNORED = -100
"""Label of a position without a target."""
PADDING = -1
"""Document id of padding."""


@dataclass(frozen=True)
class Batch:
    """What a model needs for one (micro-)batch; int64 [B, T] unless said otherwise."""

    input_ids: Int64Array
    labels: Int64Array
    """Target of each position, already shifted for causal models; -100 where there is none."""
    position_ids: Int64Array
    """Restart at 0 in each document."""
    document_ids: Int64Array
    """Number of the document within the row; -1 on padding. Attention stays within equal numbers."""
    samples: Int64Array
    """[B]: sequence numbers, for naming a bad sample."""
    token_type_ids: Int64Array | None = None
    """Sentence pairs only: 0 in the first segment, 1 in the second."""
    next_sentence_labels: Int64Array | None = None
    """Sentence pairs only, [B]: 0 when the second segment follows the first, 1 when it is random."""

    @property
    def valid_tokens(self) -> int:
        """Number of positions with a target."""
        return int(np.count_nonzero(self.labels != IGNORED))


def collate(sequences: SequenceOf[Sequence], *, length: int | None = None, pad_id: int = 0) -> Batch:
    """Pad to ``length`` (default: the longest) and shift the labels.

    ``labels[b, t]`` is the token at ``t + 1`` if that is in the same document and counts for the loss, else -100.
    Raises ValueError when a sequence is longer than ``length``.
    """
    batch = pad(sequences, length=length, pad_id=pad_id)
    target, same = batch.input_ids[:, 1:], batch.document_ids[:, 1:] == batch.document_ids[:, :-1]
    counts = np.zeros(batch.input_ids.shape, bool)
    for row, sequence in enumerate(sequences):
        counts[row, : len(sequence.loss_mask)] = sequence.loss_mask
    batch.labels[:, :-1] = np.where(same & counts[:, 1:], target, IGNORED)
    return batch


def pad(sequences: SequenceOf[Sequence], *, length: int | None = None, pad_id: int = 0) -> Batch:
    """A batch with inputs, positions and documents in place and every label still -100."""
    if not sequences:
        raise ValueError("a batch needs at least one sequence")
    longest = max(len(sequence.input_ids) for sequence in sequences)
    width = longest if length is None else length
    if longest > width:
        raise ValueError(f"a sequence of {longest} tokens does not fit in {width}")
    shape = (len(sequences), width)
    input_ids: Int64Array = np.full(shape, pad_id, np.int64)
    document_ids: Int64Array = np.full(shape, PADDING, np.int64)
    for row, sequence in enumerate(sequences):
        input_ids[row, : len(sequence.input_ids)] = sequence.input_ids
        document_ids[row, : len(sequence.document_ids)] = sequence.document_ids
    samples = np.array([sequence.index for sequence in sequences], np.int64)
    return Batch(input_ids, np.full(shape, IGNORED, np.int64), positions(document_ids), document_ids, samples)


def positions(document_ids: Int64Array) -> Int64Array:
    """Position of each token within its document; [B, T] → [B, T]. On padding it counts on from 0."""
    places = np.broadcast_to(np.arange(document_ids.shape[1], dtype=np.int64), document_ids.shape)
    starts = np.zeros(document_ids.shape, np.int64)
    starts[:, 1:] = np.where(document_ids[:, 1:] != document_ids[:, :-1], places[:, 1:], 0)
    return np.asarray(places - np.maximum.accumulate(starts, axis=1), np.int64)
