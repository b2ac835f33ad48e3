"""Plain text: a file is a document, and a long one is cut at blank lines into several."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from trainwright.data.encode import Row
from trainwright.data.rows import RowError, Text

if TYPE_CHECKING:
    from trainwright.data.readers import ReadSettings, Span

_SPAN_BYTES = 1 << 20
_ENDS = (b"\n\n", b"\r\n\r\n", b"\n")
_LOOK_AHEAD = 1 << 16
_MOST_SPANS = 4096  # of one file: the tasks of a terabyte must fit in memory


def spans(path: Path, size: int) -> list[tuple[int, int]]:
    """Ranges of bytes; where exactly a range begins is settled when it is read."""
    step = max(_SPAN_BYTES, -(-size // _MOST_SPANS))
    return [(start, min(start + step, size)) for start in range(0, size, step)] or [(0, 0)]


def rows(span: Span, settings: ReadSettings) -> Generator[Row, None, int]:
    """The documents that begin in a range of bytes."""
    size = span.path.stat().st_size
    region = range(span.begin, size if span.end is None else min(span.end, size))
    part = settings.part_bytes if len(region) > 2 * settings.part_bytes else max(len(region), 1)
    grid = range(region.start - (region.start - span.start) // part * part, min(span.stop, region.stop), part)
    with span.path.open("rb") as handle:
        start = _boundary(handle, grid[0], region, part) if grid else size
        for nominal in grid:
            stop = _boundary(handle, nominal + part, region, part)
            if start < stop:
                document = _document(handle, start, stop, size)
                if document is not None:
                    yield Row(span.file, 0, document, stop - start)
            start = stop
    return 0


def _document(handle: BinaryIO, start: int, stop: int, size: int) -> Text | RowError | None:
    """None where there is nothing but white space: an empty file is no mistake."""
    handle.seek(start)
    data = handle.read(stop - start)
    try:
        text = data.decode("utf-8-sig" if start == 0 else "utf-8")
    except UnicodeDecodeError as error:
        return RowError(f"is not text in UTF-8: byte {start + error.start} is {data[error.start]:#04x}")
    if "\0" in text:
        return RowError("holds a zero byte, so it is no text")
    return Text(text, first=start == 0, last=stop == size) if text.strip() else None


def cut(path: Path, nominal: int) -> int:
    """Where a file may be cut in two, at or after a byte other than its first, so that both sides hold some text."""
    with path.open("rb") as handle:
        handle.seek(nominal - 1)
        ahead = handle.read(_LOOK_AHEAD)
    for end in _ENDS:
        _, found, behind = ahead.partition(end)
        if found and behind.strip():
            return nominal - 1 + len(ahead) - len(behind)
    return _whole_character(ahead[1:], nominal)


def _boundary(handle: BinaryIO, nominal: int, region: range, part: int) -> int:
    """Where a document may begin, at or after a byte: behind a blank line, else a line, else a whole character.

    It depends on the file and the place alone, so that two processes that read neighbouring ranges agree.
    """
    if nominal <= region.start or nominal >= region.stop:
        return min(max(nominal, region.start), region.stop)
    handle.seek(nominal - 1)
    ahead = handle.read(part)
    for end in _ENDS:
        found = ahead.find(end)
        if found >= 0:
            return min(nominal - 1 + found + len(end), region.stop)
    return min(_whole_character(ahead[1:], nominal), region.stop)


def _whole_character(ahead: bytes, nominal: int) -> int:
    """The first byte at or after ``nominal``, where ``ahead`` begins, that begins a character of UTF-8."""
    inside = 0
    while inside < len(ahead) and ahead[inside] & 0xC0 == 0x80:
        inside += 1
    return nominal + inside
