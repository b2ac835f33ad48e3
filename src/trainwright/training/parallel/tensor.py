"""Tensor parallelism: each layer's matrices cut over the mesh's tp ranks, with sequence parallelism between them.

Takes a transformers model, with adapters or not, and its family's names; leaves DTensors over tp under the model's
own names, and hooks that make attention and MLPs regions of ``region.TensorRanks``: column-wise matrices first,
row-wise ones last, one sum at the end. Embedding and head are cut by tokens (``vocabulary``). Everything else is held
whole by every rank; where its gradient comes in parts is noted, and ``Cut.complete`` sums those once a step.

With ``sequence_parallel`` a rank holds a part of the positions between regions, from the first block's input to the
last one's output. A fused matrix that stacks queries, keys and values is held whole and read in part.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from trainwright.errors import AnswerNo
from trainwright.models.family import BlockNames, ModuleNames
from trainwright.models.layout import Layout
from trainwright.models.registry import FAMILIES, TEXT_MODELS, family, from_config
from trainwright.models.shape import ModelShape
from trainwright.models.tensor_parallel import CUT_BY_TENSOR
from trainwright.training.parallel.parts import own_experts, wide_norm
from trainwright.training.parallel.region import (
    TensorRanks,
    View,
    compute_locally,
    cut_parameter,
    on_input,
    on_output,
    own_part,
)
from trainwright.training.parallel.vocabulary import CutEmbedding, Vocabulary, cut_padding

#: Attributes by which attention of some families counts its heads or splits its output.
_COUNTS = ("num_heads", "num_attention_heads", "num_key_value_heads", "num_kv_heads", "split_size")
#: Canonical names of linears that this file can place; others (latent attention's) have no rule.
_PLACED = frozenset({"q", "k", "v", "kv", "gate", "up", "o", "down", "router", "shared_router"})

#: A parameter's place: FSDP replaces parameters, places stay.
Place = tuple[nn.Module, str]


@dataclass
class Cut:
    """What tensor parallelism has made of a model."""

    ranks: TensorRanks
    vocabulary: Vocabulary
    _partial: list[Place] = field(default_factory=list)

    def partial(self, module: nn.Module) -> list[Place]:
        """Places in ``module`` of parameters that are whole on each rank and whose gradients come in parts."""
        inside = set(module.modules())
        return [(owner, name) for owner, name in self._partial if owner in inside]

    def complete(self, places: Sequence[Place]) -> None:
        """Sum the gradients at ``places`` over tensor ranks."""
        found = [owner._parameters[name] for owner, name in places]
        gradients = [_local(p.grad) for p in found if p is not None and p.grad is not None]
        for kind in dict.fromkeys(gradient.dtype for gradient in gradients):
            alike = [gradient for gradient in gradients if gradient.dtype == kind and gradient.numel()]
            flat = torch.cat([gradient.reshape(-1) for gradient in alike])
            sum_partial(flat, self.ranks.group)
            parts = flat.split([gradient.numel() for gradient in alike])
            torch._foreach_copy_(alike, [part.view_as(g) for part, g in zip(parts, alike, strict=True)])


def sum_partial(flat: Tensor, group: dist.ProcessGroup) -> None:
    """All-reduce; without it each rank would update its copy of a norm by a gradient of its own."""
    dist.all_reduce(flat, group=group)


def refusals(layout: Layout, model: Any) -> list[tuple[str, str]]:
    """Why this transformers model cannot be cut over tp, each with what would be right; all at once."""
    kind = TEXT_MODELS.get(model.config.model_type, model.config.model_type)
    asked = f"tp={layout.tp}"
    if kind not in FAMILIES:
        right = f"tp: 1, or write models/families/{kind}.py, which names its column- and row-wise modules"
        return [(f"{asked}: no table of the modules of model type {kind}", right)]
    if not getattr(model, "_supports_attention_backend", False):
        return [(f"{asked}: models of type {kind} do not use transformers' attention interface", "tp: 1")]
    shape = from_config(model.config.to_dict(), where="config.json")
    names = family(kind).modules
    found = []
    if family(kind).name not in CUT_BY_TENSOR:
        right = f"tp: 1; these can: {', '.join(sorted(CUT_BY_TENSOR))}"
        found.append((f"{asked}: model type {kind} was not proved to be right when cut", right))
    unknown = sorted({n for stack in names.stacks for n in stack.block.linears if not _is_placed(n)})
    if unknown:
        found.append((f"{asked}: no rule cuts {', '.join(unknown)} of model type {kind} (latent attention)", "tp: 1"))
    bare = [path for stack in names.stacks for path in (*stack.block.column, *stack.block.row) if "." not in path]
    if layout.sequence_parallel and bare:
        what = f"sequence_parallel: {', '.join(bare)} of model type {kind} see rows and positions as one dimension"
        found.append((what, "sequence_parallel: false"))
    sizes = {"num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads}
    if shape.moe is None or len(shape.moe.layers) < shape.layers:
        sizes["intermediate_size"] = shape.intermediate
    if shape.moe is not None:
        sizes["experts"] = shape.moe.experts
        if shape.moe.shared_intermediate:
            sizes["shared_expert_intermediate_size"] = shape.moe.shared_intermediate
    common = gcd(*sizes.values())
    for name, size in sizes.items():
        if size % layout.tp:
            legal = [str(n) for n in range(1, common + 1) if common % n == 0]
            found.append((f"{asked} does not divide {name} = {size}", f"tp: {' or '.join(legal)}"))
    return found


def _is_placed(name: str) -> bool:
    stem = name.split("@")[0].split("+")[0]
    return stem in _PLACED or stem.removeprefix("shared_") in _PLACED


def apply(network: nn.Module, runs: Sequence[Sequence[nn.Module]], layout: Layout, mesh: DeviceMesh) -> Cut:
    """Cut ``network``; ``runs`` are its blocks, in consecutive runs (one for each stage of a pipeline).

    Raises AnswerNo for what cannot be cut, with every reason.
    """
    base = getattr(network, "get_base_model", None)
    model: Any = base() if callable(base) else network
    problems = refusals(layout, model)
    if problems:
        raise AnswerNo("; ".join(what for what, _ in problems), "; ".join(dict.fromkeys(r for _, r in problems)))
    shape = from_config(model.config.to_dict(), where="config.json")
    names = family(TEXT_MODELS.get(model.config.model_type, model.config.model_type)).modules
    ranks = TensorRanks(mesh["tp"], layout.sequence_parallel)
    return _Cutter(model, names, shape, ranks).cut(runs)


class _Cutter:
    """Cuts one model. Parameters that stand at two places (tied) are cut once."""

    def __init__(self, model: Any, names: ModuleNames, shape: ModelShape, ranks: TensorRanks):
        self.model, self.names, self.shape, self.ranks = model, names, shape, ranks
        self.result = Cut(ranks, Vocabulary(int(model.config.vocab_size), ranks))
        self._done: dict[nn.Parameter, nn.Parameter] = {}
        self._views: dict[nn.Module, dict[str, View]] = {}
        self._mixins: dict[nn.Module, type] = {}

    def cut(self, runs: Sequence[Sequence[nn.Module]]) -> Cut:
        """Cut blocks and ends; what is left is held whole."""
        kinds = {stack.path: stack.block for stack in self.names.stacks}
        paths = {id(module): name for name, module in self.model.named_modules()}
        for run in runs:
            for block in run:
                path = paths[id(block)].rpartition(".")[0]
                self._block(block, kinds.get(path) or next(iter(kinds.values())))
            if run and self.ranks.sequence:
                run[0].register_forward_pre_hook(on_input(self.ranks.split), with_kwargs=True)
                run[-1].register_forward_hook(on_output(self.ranks.join))
        self._ends()
        for module in list(self.model.modules()):
            self._hold_whole(module)
        return self.result

    def _block(self, block: nn.Module, names: BlockNames) -> None:
        columns = {path: module for path in names.column if (module := _at(block, path)) is not None}
        rows = {path: module for path in names.row if (module := _at(block, path)) is not None}
        parents = dict.fromkeys(path.rpartition(".")[0] for path in (*columns, *self._sparse(block, names)))
        for parent in parents:
            for path in [parent] if parent else [path for path in columns if "." not in path]:
                region = block.get_submodule(path)
                if not any(other and path.startswith(f"{other}.") for other in parents):
                    region.register_forward_pre_hook(on_input(self.ranks.enter), with_kwargs=True)
                self._note_partial(region)
                self._count(region)
        for path, module in columns.items():
            self._column(module, names.fused.get(path) == "stacked", path in _attention(names))
        for path, module in rows.items():
            self._row(module, leaves=not self._in_sparse(path, block, names))
        for path in names.inner_norms:
            self._inner_norm(_at(block, path))
        if self._sparse(block, names):
            self._experts(block, names)
        if self.ranks.sequence:
            self._note_partial(block)

    # -- linears ---------------------------------------------------------------------------------------------------

    def _column(self, module: nn.Module, stacked: bool, attention: bool) -> None:
        linear = _base(module)
        by_rows = _output_dimension(linear)
        adapters = _adapters(module, "lora_B")
        if stacked:
            sizes = self._stack(attention)
            for owner, dimension in [(linear, by_rows), *((b, 0) for b in adapters)]:
                views = self._views.setdefault(owner, {})
                views["weight"] = _of_stack(sizes, dimension, self.ranks)
                views["bias"] = _of_stack(sizes, 0, self.ranks)
                self._note_partial(owner)
        else:
            for owner, dimension in [(linear, by_rows), *((b, 0) for b in adapters)]:
                self._cut(owner, "weight", dimension)
                self._cut(owner, "bias", 0)
        self._shrink(linear)

    def _row(self, module: nn.Module, leaves: bool) -> None:
        linear = _base(module)
        self._cut(linear, "weight", 1 - _output_dimension(linear))
        for a in _adapters(module, "lora_A"):
            self._cut(a, "weight", 1)
        for b in _adapters(module, "lora_B"):
            self._note_partial(b)
        bias = linear._parameters.get("bias")
        if bias is not None and leaves:
            # Added to the sum, not to each rank's part of it.
            views = self._views.setdefault(linear, {})
            views["bias"] = torch.zeros_like if _output_dimension(linear) else _nothing
            self._forget_partial(linear, "bias")
        elif bias is not None:
            self._views.setdefault(linear, {})["bias"] = lambda bias: bias / self.ranks.size
        if leaves:
            module.register_forward_hook(_leaving(self.ranks, linear if bias is not None else None))

    def _shrink(self, linear: nn.Module) -> None:
        if hasattr(linear, "nf"):  # transformers' Conv1D
            linear.nf = linear.nf // self.ranks.size

    def _stack(self, attention: bool) -> list[int]:
        """Outputs of each matrix of a stack."""
        shape = self.shape
        if not attention:
            return [shape.intermediate] * 2
        key = shape.kv_heads * shape.head_dim
        return [shape.heads * shape.head_dim, key, key]

    def _count(self, region: nn.Module) -> None:
        """Tell a module of attention how many heads it has now."""
        for name in _COUNTS:
            value = region.__dict__.get(name)
            if isinstance(value, int) and value % self.ranks.size == 0:
                setattr(region, name, value // self.ranks.size)
        if hasattr(region, "qkv_proj"):  # reads its sizes from the config
            region.config = copy.copy(region.config)
            region.config.num_attention_heads //= self.ranks.size
            region.config.num_key_value_heads //= self.ranks.size

    def _inner_norm(self, norm: nn.Module | None) -> None:
        """A norm over one head is held whole. One over all heads is cut with them and needs the others' squares."""
        if norm is None or self.shape.qk_norm != "full":
            return
        self._cut(norm, "weight", 0)
        self._mixins[norm] = wide_norm(self.ranks)

    # -- experts ---------------------------------------------------------------------------------------------------

    def _sparse(self, block: nn.Module, names: BlockNames) -> list[str]:
        """Path of the experts' module, if this block has one."""
        paths = dict.fromkeys(path.rpartition(".")[0] for path in names.experts.values())
        return [path for path in paths if _at(block, path) is not None]

    def _in_sparse(self, path: str, block: nn.Module, names: BlockNames) -> bool:
        """True for shared experts, whose outputs leave together with the others'."""
        return any(path.startswith(f"{sparse.rpartition('.')[0]}.") for sparse in self._sparse(block, names))

    def _experts(self, block: nn.Module, names: BlockNames) -> None:
        """Each rank computes its own experts, for all tokens; the sum over ranks is the sum over experts."""
        for path in self._sparse(block, names):
            experts = block.get_submodule(path)
            for name in list(experts._parameters):
                self._cut(experts, name, 0)
            self._mixins[experts] = own_experts(self.ranks, int(experts.num_experts))
            experts.num_experts //= self.ranks.size
            block.get_submodule(path.rpartition(".")[0]).register_forward_hook(on_output(self.ranks.leave))

    # -- ends ------------------------------------------------------------------------------------------------------

    def _ends(self) -> None:
        embedding, head = _at(self.model, self.names.embedding), _at(self.model, self.names.head)
        for name, module in (("embedding", embedding), ("head", head)):
            if module is not None and _base(module) is not module:
                raise AnswerNo(
                    f"adapters on the {name} cannot be cut over tensor ranks",
                    "leave it out of lora.target_modules, or set parallelism.tp: 1",
                )
        if isinstance(embedding, nn.Embedding):
            self._cut(embedding, "weight", 0)
            cut_padding(embedding, self.result.vocabulary)
            embedding.vocabulary = self.result.vocabulary
            self._mixins[embedding] = CutEmbedding
        if isinstance(head, nn.Linear):
            self._cut(head, "weight", 0)
            self._head_bias(head)
            head.register_forward_pre_hook(on_input(self.ranks.copy), with_kwargs=True)

    def _head_bias(self, head: nn.Linear) -> None:
        """Held whole and read in part: rows that ranks hold unequally many of cannot be cut by FSDP once more."""
        if head._parameters.get("bias") is not None:
            self._views.setdefault(head, {})["bias"] = lambda bias: own_part(bias, 0, self.ranks)
            self.result._partial.append((head, "bias"))

    # -- parameters ------------------------------------------------------------------------------------------------

    def _cut(self, owner: nn.Module, name: str, dimension: int | None) -> None:
        parameter = owner._parameters.get(name)
        if parameter is None:
            return
        if isinstance(parameter, DTensor):
            return
        cut = self._done.get(parameter)
        if cut is None:
            cut = cut_parameter(parameter, dimension, self.ranks)
            self._done[parameter] = cut
        owner._parameters[name] = cut
        if dimension is not None:
            self._forget_partial(owner, name)

    def _hold_whole(self, module: nn.Module) -> None:
        names = [name for name, parameter in module._parameters.items() if parameter is not None]
        for name in names:
            self._cut(module, name, None)
        if names:
            compute_locally(module, self._views.get(module), self._mixins.get(module))

    def _note_partial(self, module: nn.Module) -> None:
        """Whole parameters in here will have gradients in parts."""
        known = set(self.result._partial)
        for owner in module.modules():
            for name, parameter in owner._parameters.items():
                if parameter is not None and not isinstance(parameter, DTensor) and (owner, name) not in known:
                    self.result._partial.append((owner, name))

    def _forget_partial(self, owner: nn.Module, name: str) -> None:
        if (owner, name) in self.result._partial:
            self.result._partial.remove((owner, name))


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _at(module: nn.Module, path: str) -> nn.Module | None:
    try:
        return module.get_submodule(path)
    except AttributeError:
        return None


def _base(module: nn.Module) -> nn.Module:
    """The linear itself, under peft's wrapper or not."""
    base = getattr(module, "base_layer", None)
    return base if isinstance(base, nn.Module) else module


def _adapters(module: nn.Module, name: str) -> Iterator[nn.Module]:
    held = getattr(module, name, None)
    return iter(held.values() if isinstance(held, nn.ModuleDict) else ())


def _attention(names: BlockNames) -> set[str]:
    return {path for name, path in names.linears.items() if name.split("@")[0].split("+")[0] in ("q", "k", "v", "kv")}


def _output_dimension(linear: nn.Module) -> int:
    """Dimension of the weight that its outputs run along: (outputs, inputs), but not in transformers' Conv1D."""
    return 1 if hasattr(linear, "nf") else 0


def _nothing(bias: Tensor) -> Any:
    return None


def _of_stack(sizes: Sequence[int], dimension: int, ranks: TensorRanks) -> View:
    """This rank's part of each matrix of a stack."""

    def view(stack: Tensor) -> Tensor:
        own = [own_part(part, dimension, ranks) for part in stack.split(list(sizes), dimension)]
        return torch.cat(own, dimension)

    return view


def _leaving(ranks: TensorRanks, biased: nn.Module | None) -> Callable[..., Any]:
    """Sum a row-wise linear's output over ranks, then add its bias."""

    def leave(partial: Tensor) -> Tensor:
        out = ranks.leave(partial)
        if biased is None:
            return out
        bias = biased._parameters["bias"]
        assert bias is not None
        return out + _local(bias).to(out.dtype)

    return on_output(leave)
