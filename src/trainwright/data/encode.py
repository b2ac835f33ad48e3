"""Rows → token ids with a loss mask, many rows at a time, as flat arrays that are cheap to send between processes.

Takes what a reader yields; gives an EncodedBatch. It knows neither files nor sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from trainwright.data import rows
from trainwright.data.chat import ChatTemplate, Rendered, TemplateError
from trainwright.data.counter_rng import Int64Array
from trainwright.data.rows import Completion, Content, Conversation, RowError, Text
from trainwright.data.tokenizer import Tokenizer

if TYPE_CHECKING:
    import tokenizers

_BATCH_CHARACTERS = 1 << 19
_BATCH_ROWS = 2048


@dataclass(frozen=True)
class Row:
    """One row as a reader found it. ``line`` is 1-based within what is read; 0 when a file is one document."""

    file: int
    line: int
    content: Content | RowError
    read: int = 0
    """Bytes of input that this row took, for progress."""


@dataclass
class EncodedBatch:
    """Documents as flat arrays: document ``i`` has ``lengths[i]`` ids."""

    ids: npt.NDArray[np.uint32]
    loss: npt.NDArray[np.uint8] | None
    """One for each id: 1 where it counts for the loss. None when all do."""
    lengths: Int64Array
    keys: list[bytes]
    files: Int64Array
    lines: Int64Array
    text_bytes: Int64Array
    target_bytes: Int64Array
    splittable: npt.NDArray[np.bool_]
    row_numbers: Int64Array
    """Which row of the batch a document is of: a conversation may become several documents."""
    rows: int
    bad: list[tuple[int, int, str]] = field(default_factory=list)
    """(file, line, why)"""
    read: int = 0


@dataclass(frozen=True)
class EncoderSettings:
    """What a process needs to build an Encoder; can be pickled."""

    tokenizer: Path
    objective: Literal["causal", "masked"]
    chat_template: str | None = None
    """Text of a template that replaces the tokenizer's own."""


@dataclass
class _Document:
    """One text to tokenise, with what becomes of it."""

    row: Row
    number: int
    key: bytes
    text: str
    spans: tuple[tuple[int, int], ...] | None = None
    first: bool = True
    last: bool = True
    conversation: bool = False


class Encoder:
    """Tokenises rows. One for each process; holds the tokenizer and the compiled chat template."""

    def __init__(self, settings: EncoderSettings, tokenizer: Tokenizer | None = None):
        self._tokenizer = tokenizer or Tokenizer.load(settings.tokenizer)
        self._masked = settings.objective == "masked"
        self._template = settings.chat_template or self._tokenizer.chat_template
        self._before, self._after = wrapping(self._tokenizer, settings.objective)

    def encode(self, found: Iterable[Row]) -> Iterator[EncodedBatch]:
        """Tokenise rows in order, about half a million characters at a time."""
        batch: list[Row] = []
        characters = 0
        for row in found:
            batch.append(row)
            characters += _characters(row.content)
            if characters >= _BATCH_CHARACTERS or len(batch) >= _BATCH_ROWS:
                yield self.encode_batch(batch)
                batch, characters = [], 0
        if batch:
            yield self.encode_batch(batch)

    def encode_batch(self, batch: list[Row]) -> EncodedBatch:
        """Tokenise a list of rows at once."""
        documents: list[_Document] = []
        bad: list[tuple[int, int, str]] = []
        for number, row in enumerate(batch):
            try:
                documents += self._documents(row, number)
            except RowError as error:
                bad.append((row.file, row.line, str(error)))
        plain = all(document.spans is None for document in documents)
        texts = [document.text for document in documents]
        backend = self._tokenizer.backend
        encode = backend.encode_batch_fast if plain else backend.encode_batch  # the fast one has no offsets
        encodings = encode(texts, add_special_tokens=False)
        return self._flatten(batch, documents, encodings, bad, plain)

    def _documents(self, row: Row, number: int) -> list[_Document]:
        value = row.content
        if isinstance(value, RowError):
            raise value
        key = rows.key(value)
        if isinstance(value, Text):
            return [_Document(row, number, key, value.text, first=value.first, last=value.last)]
        if self._masked:
            raise RowError("is no plain text, and objective: masked learns from plain text alone")
        if isinstance(value, Completion):
            start, text = len(value.prompt), value.prompt + value.completion
            return [_Document(row, number, key, text, ((start, len(text)),))]
        return [
            _Document(row, number, key, rendered.text, rendered.spans, conversation=True)
            for rendered in self._render(value)
        ]

    def _render(self, value: Conversation) -> list[Rendered]:
        try:
            found = self._chat.render(value.messages, value.tools)
        except TemplateError as error:
            raise RowError(str(error)) from None
        for rendered in found:
            try:
                rendered.text.encode()
            except UnicodeEncodeError:
                raise RowError("a message holds half of a surrogate pair") from None
        return found

    @cached_property
    def _chat(self) -> ChatTemplate:
        """Compiled when the first conversation comes: plain text needs no template, nor a good one."""
        if self._template is None:
            raise RowError("is a conversation but the tokenizer has no chat template; set data.chat_template")
        return ChatTemplate(self._template, self._tokenizer.special, self._tokenizer.special_texts)

    def _flatten(
        self,
        batch: list[Row],
        documents: list[_Document],
        encodings: list[tokenizers.Encoding],
        bad: list[tuple[int, int, str]],
        plain: bool,
    ) -> EncodedBatch:
        pieces: list[list[int]] = []
        masks: list[npt.NDArray[np.uint8]] = []
        lengths: Int64Array = np.zeros(len(documents), np.int64)
        for number, (document, encoding) in enumerate(zip(documents, encodings, strict=True)):
            before = self._before if document.first and not document.conversation else []
            after = self._after if document.last and not document.conversation else []
            ids = encoding.ids
            pieces += [before, ids, after]
            lengths[number] = len(before) + len(ids) + len(after)
            if not plain:
                opening: npt.NDArray[np.uint8] = np.full(
                    len(before), document.spans is None, np.uint8
                )  # <s> before a prompt is no target
                masks += [opening, _mask(encoding, document.spans), np.ones(len(after), np.uint8)]
        sizes = [len(document.text.encode()) for document in documents]
        targets = [
            size if document.spans is None else sum(len(document.text[a:b].encode()) for a, b in document.spans)
            for size, document in zip(sizes, documents, strict=True)
        ]
        return EncodedBatch(
            ids=np.fromiter(chain.from_iterable(pieces), np.uint32, int(lengths.sum())),
            loss=None if plain or not masks else np.concatenate(masks),
            lengths=lengths,
            keys=[document.key for document in documents],
            files=np.array([document.row.file for document in documents], np.int64),
            lines=np.array([document.row.line for document in documents], np.int64),
            text_bytes=np.array(sizes, np.int64),
            target_bytes=np.array(targets, np.int64),
            splittable=np.array([document.spans is None for document in documents], bool),
            row_numbers=np.array([document.number for document in documents], np.int64),
            rows=len(batch),
            bad=bad,
            read=sum(row.read for row in batch),
        )


def wrapping(tokenizer: Tokenizer, objective: str) -> tuple[list[int], list[int]]:
    """Ids before and behind a document: the tokenizer's own, and for causal models always the end-of-text token.

    For masked models they go around every sequence piece and are added when packing, so here they are empty.
    """
    if objective == "masked":
        return [], []
    after = list(tokenizer.record.suffix)
    eos = tokenizer.record.eos
    if eos is not None and eos not in after:
        after.append(eos)
    return list(tokenizer.record.prefix), after


def _mask(encoding: Any, spans: tuple[tuple[int, int], ...] | None) -> npt.NDArray[np.uint8]:
    """1 for each token that spells a character of a span. A token that straddles an edge counts."""
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
    if spans is None:
        return np.ones(len(offsets), np.uint8)
    counts: npt.NDArray[np.uint8] = np.zeros(len(offsets), np.uint8)
    for start, end in spans:
        counts[(offsets[:, 1] > start) & (offsets[:, 0] < end)] = 1
    return counts


def _characters(value: Content | RowError) -> int:
    if isinstance(value, Text):
        return len(value.text)
    if isinstance(value, Completion):
        return len(value.prompt) + len(value.completion)
    if isinstance(value, Conversation):
        return sum(len(str(message.get("content"))) for message in value.messages)
    return 0
