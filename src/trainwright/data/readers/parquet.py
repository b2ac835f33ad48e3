"""Parquet: rows of the columns that matter, row group by row group."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.data.encode import Row
from trainwright.data.readers.columns import pyarrow, rows_of_table, wanted

if TYPE_CHECKING:
    from trainwright.data.readers import ReadSettings, Span

_READ_ROWS = 1024


def spans(path: Path, size: int) -> list[tuple[int, int]]:
    """One part for each row group: (its number, the rows before it)."""
    metadata = _open(path).metadata
    before, found = 0, []
    for group in range(metadata.num_row_groups):
        found.append((group, before))
        before += metadata.row_group(group).num_rows
    return found


def rows(span: Span, settings: ReadSettings) -> Generator[Row, None, int]:
    """The rows of one row group. ``line`` is the number of the row in the file, from 1."""
    file = _open(span.path)
    columns = wanted(file.schema_arrow.names, settings.field)
    number = span.stop
    total = max(file.metadata.row_group(span.start).num_rows, 1)
    for batch in file.iter_batches(_READ_ROWS, row_groups=[span.start], columns=columns):
        yield from rows_of_table(batch, settings.field, span.file, number, span.weight / total)
        number += batch.num_rows
    return 0


def _open(path: Path) -> Any:
    """A pyarrow ParquetFile, which is untyped."""
    arrow = pyarrow("Parquet")
    try:
        return arrow.parquet.ParquetFile(path, memory_map=True)
    except arrow.ArrowException as error:
        raise ValueError(f"is no Parquet file ({error})") from None
