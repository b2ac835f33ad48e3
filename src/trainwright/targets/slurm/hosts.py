"""Slurm's way to write several host names as one: ``gpu-[001-003,007],login1``."""

from __future__ import annotations

import re

_MOST = 100_000  # more nodes than any cluster has: such a range is damage
_ITEM = re.compile(r"([^,\[]*)(?:\[([^\]]*)\])?([^,\[]*)(?:,|$)")


def expand(text: str) -> list[str]:
    """Every host name in order. What is not understood is kept as one name."""
    names: list[str] = []
    for prefix, ranges, suffix in _ITEM.findall(text.strip()):
        if not ranges:
            names += [prefix + suffix] if prefix + suffix else []
            continue
        for part in ranges.split(","):
            first, dash, last = part.partition("-")
            if dash and first.isdigit() and last.isdigit() and int(last) - int(first) < _MOST:
                names += [f"{prefix}{n:0{len(first)}d}{suffix}" for n in range(int(first), int(last) + 1)]
            else:
                names.append(f"{prefix}{part}{suffix}")
    return names
