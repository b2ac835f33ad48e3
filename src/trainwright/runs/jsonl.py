"""Append-only JSON lines that survive crashes and full disks.

One write a line; what was cut off is closed before the next line, and skipped when reading. Knows no records.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwright import plain_json
from trainwright.errors import SystemUnreachable


def append(path: Path, record: dict[str, Any]) -> None:
    """Append one line with one O_APPEND write, so that lines of several processes never interleave.

    OSError when the disk takes none of it, or only a part: the next line then begins on a line of its own.
    """
    line = (json.dumps(record, separators=(",", ":"), ensure_ascii=False, default=str) + "\n").encode()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        line = line if _ends_whole(descriptor) else b"\n" + line
        while line:
            line = line[os.write(descriptor, line) :]
    finally:
        os.close(descriptor)


def _ends_whole(descriptor: int) -> bool:
    """False when the last line was cut off: what is appended would be glued to it, and lost with it."""
    size = os.fstat(descriptor).st_size
    return not size or os.pread(descriptor, 1, size - 1) == b"\n"


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole record in order. A missing file has none; a line cut off by a crash is skipped.

    SystemUnreachable when something is there that cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        way_out = "make it a readable file, or move it away"
        raise SystemUnreachable(f"{path} cannot be read: {error.strerror or error}", way_out) from error
    for line in lines:
        try:
            record = plain_json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record
