"""Numbers as people read them: durations, bytes, counts."""

from __future__ import annotations

import math
from typing import Any


def duration(seconds: float | None) -> str:
    """``8s``, ``3m05s``, ``2h10m``, ``4d06h``; a dash for what is not known."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def bytes_(size: float | None) -> str:
    """``1.9 GiB``."""
    if size is None or not math.isfinite(size):
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return "–"


def amount(value: float | None) -> str:
    """``1,012``, ``1.2 M``, ``3.4 G``."""
    if value is None or not math.isfinite(value):
        return "–"
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def number(value: Any) -> str:
    """Four significant digits; a dash for what is not known."""
    if not isinstance(value, int | float):
        return "–"
    return f"{value:.4g}" if abs(value) < 1e-3 or abs(value) >= 1e4 else f"{value:.4f}".rstrip("0").rstrip(".")
