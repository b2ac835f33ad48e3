"""Readers: one module for each format, each with the two functions that ``READERS`` describes.

``spans(path, size)`` cuts a file into (start, stop) parts that can be read by themselves; what the numbers count is
the reader's own business (bytes, row groups, record batches). ``rows(span, settings)`` yields the rows of one part,
and returns how many lines it went over, so that line numbers can be counted on across parts.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from trainwright.data.encode import Row

#: What the libraries underneath raise for a file that is cut off or damaged.
UNREADABLE = (EOFError, OSError, ValueError, zlib.error)
#: format → module
READERS = {
    "text": "trainwright.data.readers.text",
    "jsonl": "trainwright.data.readers.jsonl",
    "parquet": "trainwright.data.readers.parquet",
    "dataset": "trainwright.data.readers.arrow",
}


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file. ``weight`` is about how many bytes of input it stands for.

    Plain text alone: no document reaches beyond the region from byte ``begin`` to ``end`` (None: to the end).
    """

    file: int
    path: Path
    start: int
    stop: int
    weight: int
    begin: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What a reader is told about its source."""

    field: str | None
    part_bytes: int
    """Plain text: a file much longer than this is cut into documents of about this size."""


class Reader(Protocol):
    """The functions of a reader's module. Both raise one of ``UNREADABLE`` for a file that is cut off or damaged."""

    def spans(self, path: Path, size: int) -> list[tuple[int, int]]:
        """Parts of a file. Raises ValueError, with the reason, for a file that is not of this format."""

    def rows(self, span: Span, settings: ReadSettings) -> Generator[Row, None, int]:
        """Rows of one part. A bad row is yielded with a RowError, not raised."""


def reader(name: str) -> Reader:
    """The reader of a format."""
    return cast(Reader, import_module(READERS[name]))
