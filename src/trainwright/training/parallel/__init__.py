"""Parallelism, one file for each dimension, applied in one fixed order.

Takes a built model, the mesh and the layout; gives what the trainer's step calls. The model knows nothing of it.
"""

from __future__ import annotations

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout
from trainwright.spec.model import RunSpec

#: Degrees that no file here applies yet, with what they are called.
_NOT_YET = {
    "pp": "pipeline parallelism",
    "cp": "context parallelism",
    "tp": "tensor parallelism",
    "ep": "expert parallelism",
}


def refuse_unsupported(spec: RunSpec, layout: Layout) -> None:
    """Raise AnswerNo for what asks for more than torch's own data parallelism, naming every degree."""
    if spec.engine != "native":
        raise AnswerNo(f"engine: {spec.engine} is not in this version", "set engine: native; zero 1 to 3 are in it")
    if (spec.offload.optimizer, spec.offload.parameters) != ("none", "none"):
        raise AnswerNo("offload is not in this version", "raise dp_shard, or set recompute: full")
    asked = [
        f"{name}={getattr(layout, name)} ({words})" for name, words in _NOT_YET.items() if getattr(layout, name) > 1
    ]
    if asked:
        raise AnswerNo(
            f"this version has data parallelism only (dp_replicate, dp_shard, zero), not {', '.join(asked)}",
            f"set {', '.join(f'parallelism.{name}: 1' for name in _NOT_YET if getattr(layout, name) > 1)}",
        )
