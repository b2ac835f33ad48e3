"""Append-only JSON lines that survive crashes: one write a line, torn or foreign lines are skipped when reading."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwright import plain_json


def append(path: Path, record: dict[str, Any]) -> None:
    """Append one line with one O_APPEND write, so that lines of several processes never interleave."""
    line = (json.dumps(record, separators=(",", ":"), ensure_ascii=False, default=str) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole record in order. A missing file has none; a line cut off by a crash is skipped."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines:
        try:
            record = plain_json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record
