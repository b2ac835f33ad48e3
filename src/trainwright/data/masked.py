"""The masked-token objective (Devlin et al. 2019): dynamic masks, whole words, sentence pairs, over any sequences.

Takes sequences and the number of each sample in the run; gives batches. Every random choice is a function of
(seed, sample number, position), so masks differ from epoch to epoch and do not depend on ranks or restarts.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from trainwright.data.batch import PADDING, Batch, pad
from trainwright.data.counter_rng import Int64Array, random_bits, random_key, random_uniform
from trainwright.data.manifest import TokenizerRecord
from trainwright.data.sequences import Sequence, Sequences
from trainwright.data.vocabulary import ENDS_SENTENCE, JOINS, OPEN, SPECIAL, UNUSED, Flags
from trainwright.spec.model import Masked

_CHOOSE, _REPLACE, _WHICH, _SPLIT, _NEXT, _OTHER, _CUT = range(10, 17)  # one stream for each kind of choice
_MASK_SHARE, _RANDOM_SHARE = 0.8, 0.1  # the rest of the chosen tokens stays as it is
_TRIES = 16


@dataclass(frozen=True)
class MaskedObjective:
    """Makes batches for masked models. ``labels`` hold the hidden token at chosen positions, -100 elsewhere."""

    settings: Masked
    seed: int
    tokenizer: TokenizerRecord
    flags: Flags
    sequences: Sequences
    """Where the second sentence of a random pair is drawn from."""
    sequence_length: int
    pad_to: int | None = None

    def __call__(self, sequences: SequenceOf[Sequence], samples: Int64Array | None = None) -> Batch:
        """A batch of the given sequences; ``samples`` are their positions in the run, default their own numbers."""
        numbers = np.array([sequence.index for sequence in sequences], np.int64) if samples is None else samples
        if self.settings.sentence_pairs:
            return self._mask(self._paired(sequences, numbers), numbers)
        return self._mask(pad(sequences, length=self.pad_to, pad_id=self._pad_id), numbers)

    @property
    def _pad_id(self) -> int:
        return self.tokenizer.pad if self.tokenizer.pad is not None else 0

    def _mask(self, batch: Batch, samples: Int64Array) -> Batch:
        ids, documents = batch.input_ids, batch.document_ids
        flags = self.flags[ids]
        candidates = (documents != PADDING) & (flags & SPECIAL == 0)
        units = self._units(flags, documents)
        rows = samples[:, None]
        chance = random_uniform(self.seed, _CHOOSE, rows, units)  # equal within a word
        chosen = candidates & (chance < self.settings.probability)
        # A row in which nothing was chosen hides its likeliest word: every row teaches something.
        chance = np.where(candidates, chance, 2.0)
        lowest = chance.min(axis=1, keepdims=True)
        chosen |= candidates & (chance == lowest) & ~chosen.any(axis=1, keepdims=True)
        batch.labels[chosen] = ids[chosen]
        places = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int64), ids.shape)
        fate = random_uniform(self.seed, _REPLACE, rows, places)
        ordinary = np.flatnonzero(self.flags & (SPECIAL | UNUSED) == 0)
        which = random_bits(self.seed, _WHICH, rows, places) % np.uint64(len(ordinary))
        assert self.tokenizer.mask is not None
        hidden = np.where(fate < _MASK_SHARE, self.tokenizer.mask, ordinary[which.astype(np.int64)])
        changed = chosen & (fate < _MASK_SHARE + _RANDOM_SHARE)
        return replace(batch, input_ids=np.where(changed, hidden, ids).astype(np.int64))

    def _units(self, flags: Flags, documents: Int64Array) -> Int64Array:
        """Number of the word (or token) that each position belongs to, [B, T]."""
        if not self.settings.whole_words:
            return np.broadcast_to(np.arange(flags.shape[1], dtype=np.int64), flags.shape)
        begins = np.ones(flags.shape, bool)
        joined = (flags[:, 1:] & JOINS != 0) & (flags[:, :-1] & OPEN != 0)
        begins[:, 1:] = ~joined | (documents[:, 1:] != documents[:, :-1])
        return np.cumsum(begins, axis=1, dtype=np.int64)

    def _paired(self, sequences: SequenceOf[Sequence], samples: Int64Array) -> Batch:
        pairs = [self._pair(sequence, int(number)) for sequence, number in zip(sequences, samples, strict=True)]
        batch = pad([pair for pair, _, _ in pairs], length=self.pad_to, pad_id=self._pad_id)
        types = np.zeros(batch.input_ids.shape, np.int64)
        for row, (pair, second, _) in enumerate(pairs):
            types[row, second : len(pair.input_ids)] = 1
        random = np.array([is_random for _, _, is_random in pairs], np.int64)
        return replace(batch, token_type_ids=types, next_sentence_labels=random)

    def _pair(self, sequence: Sequence, sample: int) -> tuple[Sequence, int, bool]:
        """[CLS] A [SEP] B [SEP], where B begins, and whether B is random."""
        text = self._content(sequence)
        split = self._sentence_start(text, random_key(self.seed, _SPLIT, sample))
        other = None
        if random_key(self.seed, _NEXT, sample) & 1:
            other = self._other(sequence.index, sample)
        first, second = text[:split], text[split:] if other is None else other
        cls, sep = self.tokenizer.cls, self.tokenizer.sep
        assert cls is not None
        assert sep is not None
        room = self.sequence_length - 3
        first = first[-max(room - len(second), room // 2) :]  # its end stays, where the second one would follow
        second = second[: room - len(first)]
        ids = np.concatenate([[cls], first, [sep], second, [sep]]).astype(np.int32)
        whole = Sequence(ids, np.ones(len(ids), bool), np.zeros(len(ids), np.int32), sequence.index)
        return whole, len(first) + 2, other is not None

    def _other(self, index: int, sample: int) -> npt.NDArray[np.int32] | None:
        """A text from another document, from the start of one of its sentences; None if none was met."""
        own = self.sequences.documents(index)
        for attempt in range(_TRIES):
            number = random_key(self.seed, _OTHER, sample, attempt) % len(self.sequences)
            if self.sequences.documents(number) != own:
                text = self._content(self.sequences[number])
                start = self._sentence_start(text, random_key(self.seed, _CUT, sample))
                return text[start:] if len(text) > start else text
        return None

    def _content(self, sequence: Sequence) -> npt.NDArray[np.int32]:
        """The sequence without what the tokenizer puts around it."""
        before, after = len(self.tokenizer.prefix), len(self.tokenizer.suffix)
        return sequence.input_ids[before : len(sequence.input_ids) - after]

    def _sentence_start(self, text: npt.NDArray[np.int32], key: int) -> int:
        """A place behind the end of a sentence inside the text; the middle when there is none."""
        ends: Int64Array = np.flatnonzero(self.flags[text[:-1]] & ENDS_SENTENCE) + 1
        return int(ends[key % len(ends)]) if len(ends) else len(text) // 2
