"""Stages of a pipeline: the model's own forward over a part of its blocks.

Takes a transformers model and the names of its family; takes blocks and ends that are not this rank's out of it, and
gives a module for each stage. A stage is the model itself with other parts in place: hidden states come in where
embeddings would, and what belongs to other stages passes them through. So masks, rotary positions, scaling and heads
are the family's own code, nothing is traced, and names in checkpoints stay those of the unsplit model.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.models.family import ModuleNames
from trainwright.training import attention
from trainwright.training.batches import DeviceBatch
from trainwright.training.objective import Objective

#: Config fields with one entry for each block; a stage's forward reads them by the block's place in the stage.
_PER_BLOCK = ("layer_types",)


@dataclass(frozen=True)
class Part:
    """Which blocks a stage holds: ``start`` to ``stop - 1`` of the model, stage ``index`` of ``count``."""

    index: int
    count: int
    start: int
    stop: int

    @property
    def is_first(self) -> bool:
        """True for the stage that reads token ids."""
        return self.index == 0

    @property
    def is_last(self) -> bool:
        """True for the stage that gives the loss."""
        return self.index == self.count - 1


def parts(stages: Sequence[int]) -> list[Part]:
    """The parts of a model whose stages hold so many blocks each, in model order."""
    found, start = [], 0
    for index, blocks in enumerate(stages):
        found.append(Part(index, len(stages), start, start + blocks))
        start += blocks
    return found


class StageObjective(Objective):
    """``Objective`` of one stage: ``forward(hidden, batch, weight, row_weight)``.

    ``hidden`` [B, T, H] comes from the stage before; the first stage gets token ids in its place. Gives hidden states
    or, on the last stage, (weighted loss, sum over targets).
    """

    def __init__(self, part: Part, model: nn.Module, kernel: attention.Kernel, recompute_attention: bool):
        super().__init__(model, kernel, recompute_attention)
        self.part = part
        self._checked = part.start == part.stop  # no block, no attention to be reached

    def forward(  # type: ignore[override]  # called by the pipeline alone
        self, hidden: Tensor, batch: DeviceBatch, weight: float, row_weight: float = 0.0
    ) -> Any:
        """See the class; another signature than the whole model's."""
        inputs = {"input_ids" if self.part.is_first else "inputs_embeds": hidden}
        if self.part.is_last:
            return self.loss(inputs, batch, weight, row_weight)
        out = self.hidden(inputs, batch, weight)
        if torch.is_grad_enabled() and not out.requires_grad:
            out.requires_grad_()  # nothing is trained up to here, but the next stage sends a gradient all the same
        return out


class PassThrough(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """In place of an embedding module: gives the hidden states that came in instead. ``kept`` are modules inside that
    the stage holds all the same (an embedding that the head is tied to).
    """

    def __init__(self, kept: Mapping[str, nn.Module]):
        super().__init__()
        for number, module in enumerate(kept.values()):
            self.add_module(f"kept{number}", module)

    def forward(self, *inputs: Any, inputs_embeds: Tensor | None = None, **_: Any) -> Tensor:
        """``inputs_embeds`` as they are, wherever they stand."""
        if inputs_embeds is not None:
            return inputs_embeds
        return next(one for one in inputs if one is not None and one.is_floating_point())


class Nothing(nn.Module):  # type: ignore[misc]
    """In place of a table of positions: adds nothing to what comes in."""

    def forward(self, *_: Any, **__: Any) -> Tensor:
        """A zero that broadcasts."""
        return torch.zeros(())


class Cutter:
    """Cuts one transformers model (adapters may be in it) by the names of its family.

    ``is_tied``: the head's matrix is the embedding's.
    """

    def __init__(self, model: Any, names: ModuleNames):  # Any: transformers is not typed here
        self.model, self.names = model, names
        head = getattr(model.get_submodule(names.head), "weight", None)
        self.is_tied = head is not None and head is getattr(self.embedding, "weight", None)

    @property
    def blocks(self) -> nn.ModuleList:
        """All blocks, or those that are left."""
        found: nn.ModuleList = self.model.get_submodule(self.names.stacks[0].path)
        return found

    @property
    def embedding(self) -> nn.Module:
        """The token embedding."""
        found: nn.Module = self.model.get_submodule(self.names.embedding)
        return found

    def refusals(self) -> list[tuple[str, str]]:
        """Why this model, of a family that can be cut, cannot be: (what, what would be right)."""
        name = f"{self.names.embedding}.weight"
        if not self.is_tied or name in dict(self.model.named_parameters()):
            return []
        what = f"{type(self.model).__name__} calls its tied matrix after the head, which is not on the first stage"
        return [(what, "pp: 1, or tie_word_embeddings: false in its config")]

    def stage(self, part: Part, blocks: Sequence[nn.Module]) -> nn.Module:
        """The model as one stage runs it. Everything in it is the model's own; nothing is copied but containers."""
        in_place: dict[str, nn.Module | None] = dict.fromkeys(self._unused(part))
        in_place[self.names.stacks[0].path] = nn.ModuleList(blocks)
        if not part.is_last:
            in_place |= {name: nn.Identity() for name in self.names.final_norms}
        if not part.is_first:
            in_place |= self._without_embeddings(part)
        config = copy.copy(self.model.config)
        for field in _PER_BLOCK:
            if values := getattr(config, field, None):
                setattr(config, field, list(values)[part.start : part.stop])
        config.num_hidden_layers = part.stop - part.start
        return _with(self.model, in_place, config)

    def keep(self, mine: Sequence[Part]) -> list[nn.Module]:
        """Take everything out of the model that no part of ``mine`` needs; the blocks that are left, in order."""
        wanted = {str(number) for part in mine for number in range(part.start, part.stop)}
        for name in [name for name in self.blocks._modules if name not in wanted]:
            del self.blocks._modules[name]
        unused = [set(self._unused(part)) for part in mine]
        for name in set.intersection(*unused):
            _take_out(self.model, name)
        return list(self.blocks)

    @property
    def _owner(self) -> str:
        """Path of the module whose forward runs the blocks."""
        return self.names.stacks[0].path.rpartition(".")[0]

    @property
    def _front(self) -> tuple[str, ...]:
        """Paths of what only the first stage runs."""
        owner = self.names.embedding.rpartition(".")[0]
        if owner != self._owner:
            return (owner,)
        return (self.names.embedding, *self.names.positions, *self.names.embedding_norms)

    def _unused(self, part: Part) -> Iterator[str]:
        """Paths of modules with parameters, outside the blocks, that a stage does not need."""
        tied = part.is_last and self.is_tied
        for name in self._ends():
            needed = part.is_first if _within(name, self._front) else part.is_last
            if not needed and not (tied and _within(name, (self.names.embedding,))):
                yield name

    def _without_embeddings(self, part: Part) -> dict[str, nn.Module]:
        owner = self.names.embedding.rpartition(".")[0]
        if owner != self._owner:
            return {owner: PassThrough({"embedding": self.embedding} if part.is_last and self.is_tied else {})}
        dropouts = [name for name in self._outside(nn.Dropout) if name.rpartition(".")[0] == self._owner]
        return {
            **{name: Nothing() for name in self.names.positions},
            **{name: nn.Identity() for name in (*self.names.embedding_norms, *dropouts)},
        }

    def _ends(self) -> list[str]:
        """Paths of modules outside the blocks that have parameters of their own; none inside another one."""
        found: list[str] = []
        for name, module in self.model.named_modules():
            own = next(module.parameters(recurse=False), None) is not None
            if own and not self._in_blocks(name) and not _within(name, found):
                found.append(name)
        return found

    def _outside(self, kind: type[nn.Module]) -> list[str]:
        return [n for n, m in self.model.named_modules() if isinstance(m, kind) and not self._in_blocks(n)]

    def _in_blocks(self, name: str) -> bool:
        return _within(name, (self.names.stacks[0].path,))


def _within(name: str, paths: Sequence[str]) -> bool:
    return any(name == path or name.startswith(f"{path}.") for path in paths)


def _take_out(model: nn.Module, name: str) -> None:
    """Leave None in a module's place, where it is not gone already with the one around it."""
    owner, _, last = name.rpartition(".")
    holder: Any = model
    for step in filter(None, owner.split(".")):
        holder = holder._modules.get(step)
        if holder is None:
            return
    holder._modules[last] = None


def _with(module: nn.Module, in_place: Mapping[str, nn.Module | None], config: Any) -> nn.Module:
    """A copy of ``module`` that has other modules at some paths and ``config`` for its own; the rest is shared,
    parameters and buffers included: what FSDP puts in their place is seen from both.
    """
    copied = copy.copy(module)
    children = dict(module._modules)
    copied.__dict__["_modules"] = children
    if hasattr(module, "config"):
        copied.__dict__["config"] = config
    inner: dict[str, dict[str, nn.Module | None]] = {}
    for path, other in in_place.items():
        child, _, rest = path.partition(".")
        if rest:
            inner.setdefault(child, {})[rest] = other
        else:
            children[child] = other
    for child, below in inner.items():
        if child not in in_place:
            children[child] = _with(module._modules[child], below, config)
    return copied
