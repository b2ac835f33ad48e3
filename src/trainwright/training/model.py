"""The model of a spec: a Hugging Face folder, a Hub id or random weights; all of it trained, or adapters.

Gives a plain module on the CPU; nothing of parallelism is in it. Whatever cannot be trained is an error that names
the field and what would be right.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainwright.data.locate import model_folder
from trainwright.data.progress import silent
from trainwright.errors import InputError, MissingExtra, Problem
from trainwright.spec.model import RunSpec
from trainwright.training import attention


@dataclass
class Built:
    """A model and what the trainer must know of its structure. A pipeline leaves each rank with a part of it."""

    network: nn.Module
    """The transformers model, or peft's wrapper around it. Names in checkpoints are relative to this."""
    blocks: tuple[nn.Module, ...]
    """Transformer blocks in model order: units of sharding, recomputation and compilation."""
    trained: int
    """Parameters that receive gradients."""
    total: int


def build_model(
    spec: RunSpec,
    cache: Path,
    *,
    master: torch.dtype,
    frozen: torch.dtype,
    own_attention: bool,
    with_weights: bool = True,
) -> Built:
    """Build the spec's model on the CPU, seeded by ``spec.seed``; equal on every rank.

    ``master`` is the type of trained weights, ``frozen`` that of the base under adapters. ``own_attention`` uses
    ``attention.attend``; without it the model is as transformers makes it, for generation and export. Not
    ``with_weights``: on the meta device, without memory.
    Raises InputError for a model that cannot be found, loaded or trained with this spec.
    """
    _require("transformers")
    assert spec.model is not None
    folder = model_folder(spec.model, cache, silent)
    config = _read_config(spec, folder)
    _check(spec, config)
    config.use_cache = False
    implementation = None
    if own_attention:
        attention.register()
        implementation = attention.IMPLEMENTATION
    dtype = frozen if spec.method == "lora" else master
    torch.manual_seed(spec.seed)
    with contextlib.nullcontext() if with_weights else torch.device("meta"):
        network = _load(spec, folder, config, dtype, implementation, with_weights)
        blocks = find_blocks(network)
        if spec.method == "lora":
            network = add_adapters(network, spec, master)
    parameters = list(network.parameters())
    return Built(
        network,
        blocks,
        sum(p.numel() for p in parameters if p.requires_grad),
        sum(p.numel() for p in parameters),
    )


def find_blocks(model: nn.Module) -> tuple[nn.Module, ...]:
    """The transformer blocks: what the family says must not be split. Empty for a model that names none."""
    names = {name for module in model.modules() for name in (getattr(module, "_no_split_modules", None) or ())}
    # Blocks repeat, in a list. What else must not be split is no block: encoders name their embeddings, too, whose
    # table may be tied to the head, and tied parameters must stay in one unit.
    listed = [module for found in model.modules() if isinstance(found, nn.ModuleList) for module in found]
    blocks = [module for module in listed if type(module).__name__ in names]
    inside = {id(inner) for block in blocks for inner in block.modules() if inner is not block}
    return tuple(block for block in blocks if id(block) not in inside)


def add_adapters(model: nn.Module, spec: RunSpec, dtype: torch.dtype) -> nn.Module:
    """Freeze the model and add low-rank adapters (Hu et al. 2021) in ``dtype`` by peft."""
    _require("peft")
    from peft import LoraConfig, TaskType, get_peft_model

    targets: Any = spec.lora.target_modules
    linear = sorted({name.rpartition(".")[2] for name, m in model.named_modules() if isinstance(m, nn.Linear)})
    fused = _fused_experts(model)
    if fused and targets == "all-linear":
        # peft would adapt routers and fused experts too, by adding a product to all experts at once in each pass.
        head = getattr(model, "get_output_embeddings", lambda: None)()
        targets = [name for name in linear if getattr(model, name, None) is not head]
    named = sorted(fused.intersection(() if isinstance(targets, str) else targets))
    if named:
        what = f"names {', '.join(named)}: one 3-D parameter of all experts; adapters are for linear modules"
        raise _problem("lora.target_modules", what, "leave it out; those of attention can be adapted")
    settings = LoraConfig(
        r=spec.lora.rank,
        lora_alpha=spec.lora.alpha,
        lora_dropout=spec.lora.dropout,
        target_modules=targets if isinstance(targets, str) else list(targets),
        task_type=TaskType.CAUSAL_LM if spec.objective == "causal" else None,
    )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)  # peft asks by a name that transformers renames
            adapted = get_peft_model(model, settings, autocast_adapter_dtype=False)
    except ValueError as error:
        what = f"fits no module of this model ({str(error).splitlines()[0][:120]})"
        instead = f"its linear modules are {', '.join(linear)}; or write all-linear"
        raise _problem("lora.target_modules", what, instead) from error
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(dtype)
    return adapted


def _fused_experts(model: nn.Module) -> set[str]:
    """Last names of parameters that hold the matrices of many experts."""
    return {name.rpartition(".")[2] for name, parameter in model.named_parameters() if parameter.ndim == 3}


def _read_config(spec: RunSpec, folder: Path) -> Any:  # Any: transformers is not typed here
    from transformers import AutoConfig

    assert spec.model is not None
    if not (folder / "config.json").is_file():
        what = f"{folder} holds no config.json" if folder.is_dir() else f"{folder} does not exist"
        raise _problem("model.path", what, "name a folder in Hugging Face format, or a Hub id such as owner/name")
    try:
        return AutoConfig.from_pretrained(folder)
    except Exception as error:  # each library that reads the file has errors of its own
        what = f"{folder / 'config.json'} cannot be read: {_first_line(error)}"
        raise _problem("model.path", what, "mend it, or fetch the model again") from error


def _check(spec: RunSpec, config: Any) -> None:
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    rotary = getattr(config, "rope_parameters", None) or getattr(config, "rope_theta", None)
    if positions and spec.sequence_length > positions and not rotary:
        what = f"is {spec.sequence_length} but this model has {positions} learned positions"
        raise _problem("sequence_length", what, f"write at most {positions}")


def _load(
    spec: RunSpec, folder: Path, config: Any, dtype: torch.dtype, implementation: str | None, weights: bool
) -> nn.Module:
    import transformers

    assert spec.model is not None
    auto = transformers.AutoModelForCausalLM
    if spec.objective == "masked":
        auto = (
            transformers.AutoModelForPreTraining if spec.masked.sentence_pairs else transformers.AutoModelForMaskedLM
        )
    options: dict[str, Any] = {"attn_implementation": implementation} if implementation else {}
    try:
        if spec.model.from_scratch or not weights:
            network: nn.Module = auto.from_config(copy.deepcopy(config), dtype=dtype, **options)
        else:
            network = auto.from_pretrained(folder, config=config, dtype=dtype, use_safetensors=True, **options)
    except MemoryError:
        raise
    except Exception as error:  # as above: truncated weights are safetensors' error, wrong sizes transformers'
        kind = "next-token" if spec.objective == "causal" else "masked-token"
        what = f"cannot be built from {folder} for {kind} prediction: {_first_line(error)}"
        instead = "name a model of that kind with whole safetensors weights, or set model.from_scratch: true"
        raise _problem("model.path", what, instead) from error
    if spec.masked.sentence_pairs and spec.objective == "masked" and not hasattr(network, "cls"):
        what = f"is a {type(network).__name__}, which has no head for sentence pairs"
        raise _problem("model.path", what, "use a BERT model, or set masked.sentence_pairs: false")
    return network


def learned_embeddings(model: nn.Module) -> set[int]:
    """``id`` of every parameter that is (tied to) an embedding table."""
    return {id(p) for module in model.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}


def recompute_blocks(blocks: Sequence[nn.Module]) -> None:
    """Keep only each block's input for backward and run its forward again (Chen et al. 2016).

    Only ``forward`` is replaced, so names in state dicts stay as they are and hooks of FSDP stay outside.
    """
    from torch.utils.checkpoint import checkpoint

    for block in blocks:
        block.forward = _Recomputed(block.forward, checkpoint)


class _Recomputed:
    """A forward that runs again in backward; dropout draws the same numbers both times."""

    def __init__(self, forward: Any, checkpoint: Any):
        self._forward, self._checkpoint = forward, checkpoint

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self._forward(*args, **kwargs)
        return self._checkpoint(self._forward, *args, use_reentrant=False, **kwargs)


def _require(package: str) -> None:
    try:
        __import__(package)
    except ImportError:
        raise MissingExtra(f"training with {package}", "train") from None


def _problem(field: str, what: str, instead: str) -> InputError:
    return InputError([Problem("spec.yaml", field=field, what=what, instead=instead)])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
