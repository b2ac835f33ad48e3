"""Family: how one architecture's ``config.json`` becomes a shape, and what its modules are called.

The names are plain strings read by the parallel runtime, so that cutting a model needs no code per family.
Standard library only; it must not import torch or transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainwright.models.config import ConfigReader
from trainwright.models.shape import ModelShape

#: How a fused projection is laid out along its outputs. ``stacked``: all of the first, then all of the next
#: (q…q k…k v…v, or gate then up). ``per_group``: for each key-value head its queries, its key, its value.
Fusion = Literal["stacked", "per_group"]
Objective = Literal["causal", "masked", "sequence_to_sequence"]

#: Canonical linear names by how tensor parallelism cuts them; every family uses these names (see shape.Linear).
COLUMN_NAMES = frozenset({"q", "k", "v", "kv", "gate", "up"})
ROW_NAMES = frozenset({"o", "down"})


@dataclass(frozen=True)
class BlockNames:
    """Module paths inside one block.

    ``linears`` maps a canonical name to a path; ``q+k+v`` names a fused projection, ``q@uncompressed`` the path in
    that form of the model. A path that some layers do not have (dense MLP beside experts) is allowed. ``experts``
    maps canonical names to 3-D parameters, experts first. ``norms`` act on the hidden stream (sequence-parallel),
    ``inner_norms`` inside attention. ``other`` lists modules that are replicated over tensor ranks unless said
    otherwise (T5's relative bias: by head).
    """

    linears: Mapping[str, str]
    norms: tuple[str, ...]
    inner_norms: tuple[str, ...] = ()
    fused: Mapping[str, Fusion] = field(default_factory=dict)
    experts: Mapping[str, str] = field(default_factory=dict)
    other: tuple[str, ...] = ()

    @property
    def column(self) -> tuple[str, ...]:
        """Linears whose outputs are cut over tensor ranks."""
        return tuple(path for name, path in self.linears.items() if _stem(name) in COLUMN_NAMES)

    @property
    def row(self) -> tuple[str, ...]:
        """Linears whose inputs are cut over tensor ranks; their outputs are summed."""
        return tuple(path for name, path in self.linears.items() if _stem(name) in ROW_NAMES)

    @property
    def replicated(self) -> tuple[str, ...]:
        """Linears every tensor rank holds whole (routers, latent attention's down-projections)."""
        cut = {*self.column, *self.row}
        return tuple(path for path in self.linears.values() if path not in cut)


@dataclass(frozen=True)
class Stack:
    """One list of blocks of the model: its path and what is in a block."""

    path: str
    block: BlockNames


@dataclass(frozen=True)
class ModuleNames:
    """Module paths of a whole model as transformers builds it.

    ``stacks`` are what a pipeline cuts, in order. ``embedding`` (with its position tables and norm) belongs to the
    first stage, ``final_norms``, ``head_transform`` and ``head`` to the last. ``shared`` are modules without
    parameters that every stage needs (rotary embeddings). ``transposed``: weights are (inputs, outputs), as in GPT-2.
    """

    embedding: str
    stacks: tuple[Stack, ...]
    final_norms: tuple[str, ...]
    head: str
    positions: tuple[str, ...] = ()
    embedding_norms: tuple[str, ...] = ()
    head_transform: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    transposed: bool = False


@dataclass(frozen=True)
class Family:
    """One architecture: ``shape`` reads its config (problems are collected in the reader), ``modules`` names it."""

    name: str
    shape: Callable[[ConfigReader, str], ModelShape]
    modules: ModuleNames
    objective: Objective = "causal"


def _stem(name: str) -> str:
    """``q`` of ``q+k+v`` and of ``cross_q``, ``up`` of ``shared_up`` and of ``up@ungated``."""
    return name.split("@")[0].split("+")[0].removeprefix("shared_").removeprefix("cross_")
