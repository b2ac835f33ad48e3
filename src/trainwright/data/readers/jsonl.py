"""JSON lines: a row a line; blank lines are skipped. Files ending in ``.gz`` are read as they are, in one part."""

from __future__ import annotations

import gzip
import json
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from trainwright.data.encode import Row
from trainwright.data.rows import Content, RowError, content

if TYPE_CHECKING:
    from trainwright.data.readers import ReadSettings, Span

_SPAN_BYTES = 1 << 20
_MOST_SPANS = 4096  # of one file: the tasks of a terabyte must fit in memory


def spans(path: Path, size: int) -> list[tuple[int, int]]:
    """Ranges of bytes; a line belongs to the range in which it begins."""
    with _open(path) as handle:
        beginning = handle.read(256).lstrip()
    if beginning.startswith(b"["):
        raise ValueError("holds one JSON list, not a row a line; `jq -c '.[]'` writes it as JSON lines")
    if path.suffix == ".gz":
        return [(0, size)]
    step = max(_SPAN_BYTES, -(-size // _MOST_SPANS))
    return [(start, min(start + step, size)) for start in range(0, size, step)]


def rows(span: Span, settings: ReadSettings) -> Generator[Row, None, int]:
    """The rows whose line begins in a range of bytes."""
    number = 0
    compressed = span.path.suffix == ".gz"
    with _open(span.path) as handle:
        place = 0
        if span.start and not compressed:
            handle.seek(span.start - 1)
            place = span.start - 1 + len(handle.readline())
        while compressed or place < span.stop:
            line = handle.readline()
            if not line:
                break
            place += len(line)
            number += 1
            if line.strip():
                yield Row(span.file, number, _parse(line, settings.field), len(line))
    return number


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _parse(line: bytes, field: str | None) -> Content | RowError:
    try:
        return content(json.loads(line.rstrip()), field)  # a column beyond the line would be one of the next
    except json.JSONDecodeError as error:
        return RowError(f"is no JSON: {error.msg} at column {error.colno}")
    except UnicodeDecodeError as error:
        return RowError(f"is not text in UTF-8: byte {error.start + 1} of the line")
    except RecursionError:
        return RowError("is nested too deeply")
    except RowError as error:
        return error
    except ValueError as error:  # an integer of thousands of digits
        return RowError(f"is no JSON that can be read: {error}")
