"""Parallelism, one file for each dimension, applied in one fixed order.

Takes a built model, the mesh and the layout; gives what the trainer's step calls. The model knows nothing of it.
"""

from __future__ import annotations

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout

#: Degrees that no file here applies yet, with what they are called.
_NOT_YET = {
    "pp": "pipeline parallelism",
    "cp": "context parallelism",
    "tp": "tensor parallelism",
    "ep": "expert parallelism",
}


def refuse_unsupported(layout: Layout) -> None:
    """Raise AnswerNo for a layout that asks for more than data parallelism, naming every degree."""
    asked = [
        f"{name}={getattr(layout, name)} ({words})" for name, words in _NOT_YET.items() if getattr(layout, name) > 1
    ]
    if asked:
        raise AnswerNo(
            f"this version has data parallelism only (dp_replicate, dp_shard, zero), not {', '.join(asked)}",
            f"set {', '.join(f'parallelism.{name}: 1' for name in _NOT_YET if getattr(layout, name) > 1)}",
        )
