"""Arrow files as Hugging Face datasets writes them (``save_to_disk``), record batch by record batch."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.data.encode import Row
from trainwright.data.readers.columns import pyarrow, rows_of_table, wanted

if TYPE_CHECKING:
    from trainwright.data.readers import ReadSettings, Span

_SPAN_ROWS = 1000
_READ_ROWS = 1024


def spans(path: Path, size: int) -> list[tuple[int, int]]:
    """Parts of about a thousand rows: (first record batch, last, exclusive). Only the headers are read."""
    found, first, rows_so_far, number = [], 0, 0, 0
    with _batches(path) as batches:
        for number, batch in enumerate(batches, 1):
            rows_so_far += batch.num_rows
            if rows_so_far >= _SPAN_ROWS:
                found.append((first, number))
                first, rows_so_far = number, 0
    return [*found, (first, number)] if number > first else found


def rows(span: Span, settings: ReadSettings) -> Generator[Row, None, int]:
    """The rows of some record batches. ``line`` is the number of the row in the file, from 1."""
    before = 0
    with _batches(span.path) as batches:
        for number, batch in enumerate(batches):
            if number >= span.stop:
                break
            if number >= span.start:
                columns = wanted(batch.schema.names, settings.field)
                chosen = batch if columns is None else batch.select(columns)
                weight = span.weight / (span.stop - span.start) / max(batch.num_rows, 1)
                for start in range(0, batch.num_rows, _READ_ROWS):
                    part = chosen.slice(start, _READ_ROWS)
                    yield from rows_of_table(part, settings.field, span.file, before + start, weight)
            before += batch.num_rows
    return 0


@contextmanager
def _batches(path: Path) -> Iterator[Any]:
    """The record batches of a stream (untyped), mapped, not read."""
    arrow = pyarrow("a dataset folder")
    try:
        with arrow.memory_map(str(path)) as source, arrow.ipc.open_stream(source) as stream:
            yield stream
    except arrow.ArrowException as error:
        raise ValueError(f"is no Arrow stream ({error})") from None
