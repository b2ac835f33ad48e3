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
_MOST_SPANS = 4096  # of one file: the tasks of a terabyte must fit in memory


def spans(path: Path, size: int) -> list[tuple[int, int]]:
    """Ranges of bytes; where exactly a range begins is settled when it is read."""
    step = max(_SPAN_BYTES, -(-size // _MOST_SPANS))
    return [(start, min(start + step, size)) for start in range(0, size, step)] or [(0, 0)]


def rows(span: Span, settings: ReadSettings) -> Generator[Row, None, int]:
    """The documents that begin in a range of bytes."""
    size = span.path.stat().st_size
    part = settings.part_bytes if size > 2 * settings.part_bytes else max(size, 1)
    grid = range(-(-span.start // part) * part, span.stop, part)
    with span.path.open("rb") as handle:
        start = _boundary(handle, grid[0], size, part) if grid else size
        for nominal in grid:
            stop = _boundary(handle, nominal + part, size, part)
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


def _boundary(handle: BinaryIO, nominal: int, size: int, part: int) -> int:
    """Where a document may begin, at or after a byte: behind a blank line, else a line, else a whole character.

    It depends on the file and the place alone, so that two processes that read neighbouring ranges agree.
    """
    if nominal <= 0 or nominal >= size:
        return min(max(nominal, 0), size)
    handle.seek(nominal - 1)
    ahead = handle.read(part)
    for end in (b"\n\n", b"\r\n\r\n", b"\n"):
        found = ahead.find(end)
        if found >= 0:
            return min(nominal - 1 + found + len(end), size)
    whole = 1
    while whole < len(ahead) and ahead[whole] & 0xC0 == 0x80:
        whole += 1
    return min(nominal - 1 + whole, size)
