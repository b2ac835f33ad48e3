"""Prepared data, opened: the manifest and the two splits as memory-mapped sequences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainwright.data.manifest import Manifest
from trainwright.data.order import GlobalOrder
from trainwright.data.sequences import Sequences
from trainwright.errors import AnswerNo, InputError, Problem
from trainwright.runs.folder import read_json
from trainwright.spec.model import RunSpec

#: Reading this much takes about a second. Larger folders are read again only when a file is younger than the
#: manifest, which is written last; `prepare --verify` always reads.
VERIFY_BYTES = 1 << 30


@dataclass(frozen=True)
class PreparedData:
    """What ``prepare`` made. Sizes are checked on opening; ``verify`` checks every hash."""

    folder: Path
    manifest: Manifest
    train: Sequences
    eval: Sequences

    @classmethod
    def open(cls, folder: Path) -> PreparedData:
        """Open a prepared folder. Raises AnswerNo when it is missing, partial or damaged."""
        manifest = Manifest.read(folder)
        return cls(folder, manifest, Sequences(folder, manifest, "train"), Sequences(folder, manifest, "eval"))

    @classmethod
    def trusted(cls, folder: Path) -> PreparedData:
        """Open a folder made before. Raises AnswerNo as ``open`` does, and for other content than was written.

        Every hash is checked, except where that takes long and nothing was written to since: see ``VERIFY_BYTES``.
        """
        prepared = cls.open(folder)
        if prepared.manifest.size > VERIFY_BYTES and not prepared.manifest.is_older_than_files(folder):
            return prepared
        if wrong := prepared.verify():
            raise AnswerNo(f"{folder} is damaged: {'; '.join(wrong[:10])}", "prepare it again")
        return prepared

    @classmethod
    def of_run(cls, record: Path) -> PreparedData:
        """Open what a run's ``data.json`` names. Raises InputError when the run has none yet."""
        values = read_json(record)
        if not values or not isinstance(values.get("folder"), str):
            problem = Problem(str(record), what="names no prepared data", instead="run `trainwright prepare` first")
            raise InputError([problem])
        prepared = cls.open(Path(values["folder"]))
        if values.get("digest") != prepared.manifest.digest:
            raise AnswerNo(f"{prepared.folder} is not the data that this run was prepared with", "prepare it again")
        return prepared

    def verify(self) -> list[str]:
        """Read every byte; gives a sentence for each damaged file. Empty means good."""
        return self.manifest.verify(self.folder)

    def tokens_per_sample(self, order: GlobalOrder) -> float:
        """Mean length of what an epoch of ``order`` shows, in tokens; padding is none."""
        rows = zip(order.draws, self.train.source_tokens, self.train.source_counts, strict=True)
        return sum(draws * tokens / count for draws, tokens, count in rows if count) / order.epoch_length

    def order(self, spec: RunSpec) -> GlobalOrder:
        """The order in which a run of this spec sees the training sequences."""
        assert spec.data is not None
        counts = self.train.source_counts
        weights = [source.weight for source in spec.data.sources][: len(counts)]
        return GlobalOrder(counts, spec.seed, spec.data.shuffle, weights)
