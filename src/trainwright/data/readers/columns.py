"""Columns of Arrow tables → rows, for the two formats that pyarrow reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainwright.data.encode import Row
from trainwright.data.rows import Content, RowError, content
from trainwright.errors import MissingExtra

_FIELDS = ("text", "prompt", "completion", "messages", "tools")


def pyarrow(what: str) -> Any:
    """The pyarrow module (untyped). Raises MissingExtra."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra(f"reading {what}", "parquet") from None
    return pyarrow


def wanted(names: Sequence[str], field: str | None) -> list[str] | None:
    """The columns to read; None for all, when none of those we know is there and the error should list them."""
    chosen = [name for name in names if name in ((field, "tools") if field else _FIELDS)]
    return chosen if chosen and (field is None or field in chosen) else None


def rows_of_table(table: Any, field: str | None, file: int, before: int, bytes_per_row: float) -> Iterator[Row]:
    """Rows of a pyarrow RecordBatch; ``before`` rows of the file come before it."""
    for number, values in enumerate(table.to_pylist(), before + 1):
        yield Row(file, number, _content(values, field), int(bytes_per_row))


def _content(values: dict[str, Any], field: str | None) -> Content | RowError:
    """A column that is null in this row, of a table that mixes kinds of rows, is as good as absent."""
    present = {name: _without_nulls(value) for name, value in values.items() if value is not None}
    try:
        return content(present, field)
    except RowError as error:
        return error


def _without_nulls(value: Any) -> Any:
    """Arrow gives every message every key of the schema; one that is null was not written."""
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value]
    return value
