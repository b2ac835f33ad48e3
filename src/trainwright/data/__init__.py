"""Data: from text, rows and conversations to memory-mapped sequences in one global order. No torch."""

from __future__ import annotations

from trainwright.data.batch import IGNORED, PADDING, Batch, collate
from trainwright.data.order import GlobalOrder
from trainwright.data.prepare import prepare
from trainwright.data.prepared import PreparedData
from trainwright.data.progress import OnProgress, Progress
from trainwright.data.sequences import Sequence, Sequences

__all__ = [
    "IGNORED",
    "PADDING",
    "Batch",
    "GlobalOrder",
    "OnProgress",
    "PreparedData",
    "Progress",
    "Sequence",
    "Sequences",
    "collate",
    "prepare",
]
