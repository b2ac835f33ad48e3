"""Layout: how one training job is cut over its ranks.

A layout names the degree of every kind of parallelism, what ZeRO shards, the pipeline's stages and schedule,
and the micro-batching. The spec's ``parallelism``, ``plan --layout``, the device mesh, the checkpoint manifest
and the plan use exactly these names. Standard library only: a layout is read where torch is not installed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

Schedule = Literal["gpipe", "1f1b", "interleaved", "zero_bubble"]
Recompute = Literal["none", "selective", "full"]
Zero = Literal[0, 1, 2, 3]

#: Mesh dimensions, outermost to innermost. Inner dimensions talk most, so they stay inside a node.
MESH_DIMENSIONS = ("pp", "dp_replicate", "dp_shard", "cp", "tp")


#: No degree, batch or count of anything in a layout is larger.
LARGEST = 1 << 30


class LayoutError(ValueError):
    """A layout that contradicts itself. ``problems`` lists every contradiction as ``(field, text)``."""

    def __init__(self, problems: list[tuple[str, str]]):
        self.problems = problems
        super().__init__("; ".join(f"{field}: {text}" for field, text in problems))


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism and micro-batching of one job.

    ``ep`` divides ``dp_shard * cp`` and adds no ranks: expert parallelism reuses the data ranks.
    ``zero`` acts over ``dp_shard``: 0 plain DDP (nothing sharded), 1 optimizer state, 2 also gradients (no
    resharding after forward), 3 also parameters (FSDP2 resharding after forward).
    ``stages`` holds the number of transformer layers of each virtual pipeline stage, in model order; empty
    means "one stage, all layers" when ``pp == 1`` and "balanced by the planner" otherwise.
    """

    pp: int = 1
    dp_replicate: int = 1
    dp_shard: int = 1
    cp: int = 1
    tp: int = 1
    ep: int = 1
    zero: Zero = 0
    sequence_parallel: bool = False
    schedule: Schedule = "1f1b"
    stages: tuple[int, ...] = ()
    micro_batch_size: int = 1
    micro_batches: int = 1
    recompute: Recompute = "none"

    def __post_init__(self) -> None:
        problems = list(_contradictions(self))
        if problems:
            raise LayoutError(problems)

    @property
    def world_size(self) -> int:
        """Number of ranks: pp · dp_replicate · dp_shard · cp · tp."""
        return self.pp * self.dp_replicate * self.dp_shard * self.cp * self.tp

    @property
    def data_parallel(self) -> int:
        """Number of rank groups that read different samples: dp_replicate · dp_shard."""
        return self.dp_replicate * self.dp_shard

    @property
    def global_batch_size(self) -> int:
        """Sequences per optimizer step."""
        return self.micro_batch_size * self.micro_batches * self.data_parallel

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        """Sizes of ``MESH_DIMENSIONS`` in order."""
        return tuple(getattr(self, name) for name in MESH_DIMENSIONS)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values, every field present."""
        return {**asdict(self), "stages": list(self.stages)}

    def with_(self, **changes: Any) -> Layout:
        """A copy with some fields replaced; checked again."""
        return replace(self, **changes)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Layout:
        """Read fields by name; what is not named keeps its default, and ``zero`` becomes 3 where dp_shard > 1.

        Unknown names and wrong types raise ``LayoutError``, all at once.
        """
        known = {field.name for field in fields(cls)}
        unknown = [
            (name, f"no such field; the fields are {', '.join(sorted(known))}")
            for name in values
            if name not in known
        ]
        if unknown:
            raise LayoutError(unknown)
        values = dict(values)
        if isinstance(values.get("stages"), list):
            values["stages"] = tuple(values["stages"])
        if "zero" not in values and isinstance(values.get("dp_shard"), int) and values["dp_shard"] > 1:
            values["zero"] = 3
        return cls(**values)

    def __str__(self) -> str:
        degrees = [f"{name}={getattr(self, name)}" for name in (*MESH_DIMENSIONS, "ep") if getattr(self, name) > 1]
        words = [*(degrees or ["1 rank"]), f"zero={self.zero}"]
        words += [self.schedule] if self.pp > 1 else []
        words += [f"stages={'+'.join(map(str, self.stages))}"] if 1 < len(self.stages) <= 4 else []
        words += ["sequence_parallel"] if self.sequence_parallel else []
        words += [f"mbs={self.micro_batch_size}x{self.micro_batches}"]
        words += [f"recompute={self.recompute}"] if self.recompute != "none" else []
        return " ".join(words)


def _contradictions(layout: Layout) -> list[tuple[str, str]]:
    """Everything in a layout that cannot be, as (field, text). Pure arithmetic: no model, no machine."""
    found: list[tuple[str, str]] = []
    for name in (*MESH_DIMENSIONS, "ep", "micro_batch_size", "micro_batches"):
        value = getattr(layout, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            found.append((name, f"is {value!r}; a whole number of at least 1 is needed"))
        elif value > LARGEST:
            text = f"is {value:.4g}" if value < 10**300 else "is absurdly large"
            found.append((name, f"{text}; at most {LARGEST:,} is believable"))
    for name, choices in (
        ("zero", get_args(Zero)),
        ("schedule", get_args(Schedule)),
        ("recompute", get_args(Recompute)),
    ):
        value = getattr(layout, name)
        if isinstance(value, bool) or value not in choices:
            found.append((name, f"is {value!r}; one of {', '.join(map(str, choices))} is needed"))
    if not isinstance(layout.sequence_parallel, bool):
        found.append(("sequence_parallel", f"is {layout.sequence_parallel!r}; true or false is needed"))
    if not isinstance(layout.stages, tuple):
        found.append(("stages", f"is {layout.stages!r}; the layers of each stage are needed"))
        return found
    bad_stage = [s for s in layout.stages if isinstance(s, bool) or not isinstance(s, int) or s < 0]
    if bad_stage:
        found.append(("stages", f"holds {bad_stage[0]!r}; whole numbers of layers are needed"))
    if found:
        return found
    if (layout.dp_shard * layout.cp) % layout.ep:
        found.append(("ep", f"is {layout.ep}, which does not divide dp_shard · cp = {layout.dp_shard * layout.cp}"))
    if layout.sequence_parallel and layout.tp == 1:
        found.append(
            (
                "sequence_parallel",
                "is true but tp is 1; sequence parallelism shards activations over the tp ranks",
            )
        )
    if layout.stages and len(layout.stages) % layout.pp:
        found.append(("stages", f"has {len(layout.stages)} entries, which is not a multiple of pp = {layout.pp}"))
    return found
