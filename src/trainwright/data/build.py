"""Encoded documents → shards: duplicates dropped, splits chosen, long ones cut, everything counted.

Takes batches in the order of the sources; writes shard files into a folder that nobody trusts yet. What is held out
does not depend on that order. It knows neither processes nor file formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.data.encode import EncodedBatch
from trainwright.data.manifest import Counts, FileRecord, Shard, Split
from trainwright.data.pack import OverLong, Packed, Packer, Piece, cut, wrap
from trainwright.data.shard_writer import ShardWriter
from trainwright.errors import InputError, Problem

LISTED = 10
"""So many bad rows are listed."""
_HASH_SPACE = 1 << 64


@dataclass(frozen=True)
class BuildSettings:
    """What decides how documents become sequences."""

    sequence_length: int
    packing: bool
    keep_order: bool
    eval_fraction: float
    over_long: OverLong | None
    """None: split plain text, refuse a conversation."""
    drop_duplicates: bool
    bad_rows: float
    around: tuple[list[int], list[int]]
    """Ids put before and behind every piece; empty for causal models."""
    token_type: str


@dataclass(frozen=True, slots=True)
class _Source:
    """A source and where its documents go; still open for the one that waits when others have begun."""

    where: str
    held_out: bool
    name: Callable[[int], str]
    packers: dict[Split, Packer]
    writers: dict[Split, ShardWriter]
    counts: Counts = field(default_factory=Counts)
    lines: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Document:
    source: _Source
    key: bytes
    pieces: list[Piece]
    counts: Counts


class Builder:
    """Builds all shards of one prepared folder, source by source."""

    def __init__(self, folder: Path, settings: BuildSettings):
        self._folder, self._settings = folder, settings
        before, after = settings.around
        self._room = settings.sequence_length - len(before) - len(after)
        self._seen: set[bytes] = set()
        self._number = 0
        self._reserve: _Document | None = None
        self._sources: list[_Source] = []
        self.splits: dict[Split, Counts] = {"train": Counts(), "eval": Counts()}
        self.shards: list[Shard] = []
        self.files: list[FileRecord] = []
        self.bad: list[str] = []
        self._problems: list[Problem] = []

    def start(self, source: int, origin: str, where: str, held_out: bool, name: Callable[[int], str]) -> None:
        """Begin a source. ``held_out``: all of it is for evaluation. ``name`` gives the path of a file number."""
        settings = self._settings
        splits: tuple[Split, ...] = ("train", "eval")
        packers = {s: Packer(settings.sequence_length, settings.packing, settings.keep_order) for s in splits}
        writers = {s: ShardWriter(self._folder, s, source, origin, settings.token_type) for s in splits}
        self._now = _Source(where, held_out, name, packers, writers)
        self._sources.append(self._now)

    @property
    def counts(self) -> Counts:
        """What was read of the source that was begun last, and what became of it."""
        return self._now.counts

    def count_lines(self, lines: dict[int, int]) -> None:
        """Lines that were read of each file; later rows of the file are counted on from there."""
        for file, number in lines.items():
            self._now.lines[file] = self._now.lines.get(file, 0) + number

    def add(self, batch: EncodedBatch, held_out: bool | None = None) -> None:
        """Take the documents of a batch. Raises InputError once it is certain that the data must be refused.

        ``held_out`` says where all of it belongs; None: the content of each document decides.
        """
        self.counts.rows += batch.rows
        for file, line, why in batch.bad:
            self._bad(file, line, why)
        stop, row, kept = 0, -1, False
        for index, (length, number) in enumerate(
            zip(batch.lengths.tolist(), batch.row_numbers.tolist(), strict=True)
        ):
            start, stop = stop, stop + length
            if number != row:
                row, kept = number, self._is_new(batch.keys[index])
            if kept and length:
                self._add(batch, index, start, stop, held_out)

    def end(self) -> None:
        """End a source: everything of it is written, apart from a document that may have to be held out."""
        self._flush(self._now)

    def finish(self) -> None:
        """End all sources; ``shards`` and ``files`` are complete then."""
        self._settle(last=True)
        for source in self._sources:
            self._flush(source)
            for writer in source.writers.values():
                self.shards += writer.shards
                self.files += writer.files

    def _flush(self, source: _Source) -> None:
        for split, packer in source.packers.items():
            self._write(source, split, packer.finish())
            source.writers[split].finish()

    def check(self, rows: int, bad_rows: int) -> None:
        """Raise InputError when over-long rows were found or too large a share of all rows is bad."""
        if self._problems:
            raise InputError(self._problems[:LISTED])
        refuse_bad_rows(rows, bad_rows, self.bad, self._settings.bad_rows)

    def _bad(self, file: int, line: int, why: str) -> None:
        self.counts.bad_rows += 1
        if len(self.bad) < LISTED:
            self.bad.append(f"{self._place(file, line)}: {why}")
        if self._settings.bad_rows == 0 and self.counts.bad_rows >= LISTED:
            refuse_bad_rows(self.counts.rows, self.counts.bad_rows, self.bad, 0.0, so_far=True)

    def _place(self, file: int, line: int) -> str:
        name = self._now.name(file)
        return f"{name}:{self._line(file, line)}" if line else name

    def _line(self, file: int, line: int) -> int:
        return self._now.lines.get(file, 0) + line if line else 0

    def _is_new(self, key: bytes) -> bool:
        if key in self._seen:
            self.counts.duplicates += 1
            return False
        if self._settings.drop_duplicates:
            self._seen.add(key)
        return True

    def _add(self, batch: EncodedBatch, index: int, start: int, stop: int, held_out: bool | None) -> None:
        file = int(batch.files[index])
        loss = None if batch.loss is None or batch.splittable[index] else batch.loss[start:stop]
        whole = Piece(batch.ids[start:stop], loss, self._number, file, self._line(file, int(batch.lines[index])))
        self._number += 1
        counts = Counts(documents=1, bytes=int(batch.text_bytes[index]), target_bytes=int(batch.target_bytes[index]))
        pieces = self._fit(whole, bool(batch.splittable[index]), counts)
        if pieces:
            self._route(_Document(self._now, batch.keys[index], pieces, counts), held_out)
        else:
            self.counts.dropped += 1

    def _fit(self, whole: Piece, splittable: bool, counts: Counts) -> list[Piece]:
        """Pieces that fit in a sequence and have something to learn; none when the document is dropped."""
        length = len(whole.ids)
        pieces = [whole]
        if length > self._room:
            counts.over_long = 1
            policy = self._settings.over_long or ("split" if splittable else "error")
            if policy == "error":
                self._too_long(whole)
            pieces = [] if policy in ("error", "drop") else cut(whole, self._room)
            if policy == "truncate":
                pieces = pieces[:1]
                counts.bytes = round(counts.bytes * self._room / length)
                counts.target_bytes = round(counts.target_bytes * _targets(pieces) / max(_targets([whole]), 1))
        pieces = [piece for piece in pieces if piece.loss is None or piece.loss.any()]
        before, after = self._settings.around
        if before or after:
            pieces = [wrap(piece, before, after) for piece in pieces]
        counts.tokens = sum(len(piece.ids) for piece in pieces)
        counts.target_tokens = _targets(pieces)
        return pieces

    def _too_long(self, piece: Piece) -> None:
        line = piece.line
        self._problems.append(
            Problem(
                self._now.name(piece.file),
                line,
                field=self._now.where,
                what=f"has {len(piece.ids)} tokens, more than the {self._room} that fit in a sequence",
                instead="raise sequence_length, or set data.over_long to truncate, split or drop",
            )
        )
        if len(self._problems) >= LISTED:
            raise InputError(self._problems)

    def _route(self, document: _Document, held_out: bool | None) -> None:
        """Send a document to its split: where it belongs, else by the hash of its content, whatever its place."""
        fraction = self._settings.eval_fraction
        if document.source.held_out:
            return self._put("eval", document)
        if held_out or (held_out is None and int.from_bytes(document.key[:8], "little") < fraction * _HASH_SPACE):
            self._put("eval", document)
            return self._settle()
        if held_out is False or fraction == 0 or self.splits["eval"].documents:
            return self._put("train", document)
        # Nothing is held out yet. The document with the lowest hash of all sources waits: if there are too few for
        # any to be held out by chance, it is the one.
        if self._reserve is None or document.key[:8][::-1] < self._reserve.key[:8][::-1]:
            document, self._reserve = self._reserve or document, document
            if document is self._reserve:
                return None
        return self._put("train", document)

    def _settle(self, last: bool = False) -> None:
        if self._reserve is None:
            return
        document, self._reserve = self._reserve, None
        alone = last and not self.splits["eval"].documents and self.splits["train"].documents > 0
        self._put("eval" if alone else "train", document)

    def _put(self, split: Split, document: _Document) -> None:
        source = document.source
        self.splits[split].add(document.counts)
        source.counts.add(document.counts)
        for piece in document.pieces:
            self._write(source, split, source.packers[split].add(piece))

    def _write(self, source: _Source, split: Split, sequences: Iterable[Packed]) -> None:
        for sequence in sequences:
            source.writers[split].write(sequence)
            self.splits[split].sequences += 1
            source.counts.sequences += 1


def refuse_bad_rows(rows: int, bad: int, listed: list[str], tolerated: float, *, so_far: bool = False) -> None:
    """Raise InputError when more than the tolerated share of rows is bad; the first ones are named.

    ``so_far``: reading stopped there, and nobody knows how many there are.
    """
    if bad <= tolerated * rows:
        return
    more = [f"… and {bad - len(listed)} more"] if bad > len(listed) else []
    share = f"{bad} of {rows} rows are bad ({bad / rows:.2%}); data.bad_rows allows {tolerated:.2%}"
    if so_far:
        share = f"at least {bad} rows are bad, where reading stopped; data.bad_rows allows none"
    if listed:
        share += f"; the first: {listed[0]}"  # a screen shows the last line of a stage alone
    instead = "mend or remove them, or raise data.bad_rows"
    raise InputError([*(Problem(text) for text in [*listed, *more]), Problem("data", what=share, instead=instead)])


def _targets(pieces: list[Piece]) -> int:
    return sum(len(piece.ids) if piece.loss is None else int(piece.loss.sum()) for piece in pieces)
