"""The objective of a spec as one function: sequences → batch. The trainer and the evaluation call nothing else."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Protocol

from trainwright.data.batch import Batch, collate
from trainwright.data.counter_rng import Int64Array, random_key
from trainwright.data.manifest import VOCABULARY, Split
from trainwright.data.masked import MaskedObjective
from trainwright.data.prepared import PreparedData
from trainwright.data.sequences import Sequence
from trainwright.data.vocabulary import read_flags
from trainwright.spec.model import RunSpec

_EVALUATION = 1


class Objective(Protocol):
    """Makes a batch. ``samples`` [B] are the positions of the samples in the run; only random choices need them.

    Without them a sequence's own number stands in: in evaluation the same sequence is then always masked alike.
    """

    def __call__(self, sequences: SequenceOf[Sequence], samples: Int64Array | None = None) -> Batch: ...


@dataclass(frozen=True)
class CausalObjective:
    """Next-token prediction."""

    pad_id: int
    pad_to: int | None = None

    def __call__(self, sequences: SequenceOf[Sequence], samples: Int64Array | None = None) -> Batch:
        """Pad and shift."""
        return collate(sequences, length=self.pad_to, pad_id=self.pad_id)


def objective(spec: RunSpec, prepared: PreparedData, split: Split = "train", pad_to: int | None = None) -> Objective:
    """What makes batches for this spec. ``pad_to``: width of every batch; None: that of its longest sequence."""
    record = prepared.manifest.tokenizer
    if spec.objective == "causal":
        pad = record.pad if record.pad is not None else record.eos
        return CausalObjective(pad or 0, pad_to)
    return MaskedObjective(
        settings=spec.masked,
        seed=spec.seed if split == "train" else random_key(spec.seed, _EVALUATION),
        tokenizer=record,
        flags=read_flags(prepared.folder / VOCABULARY),
        sequences=prepared.train if split == "train" else prepared.eval,
        sequence_length=prepared.manifest.sequence_length,
        pad_to=pad_to,
    )
