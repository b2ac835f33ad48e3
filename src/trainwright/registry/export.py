"""Export: a trained model as a folder that ``from_pretrained`` loads, safetensors only.

Takes a restored model; writes weights, config, tokenizer and, for LoRA, the adapter beside the merged weights. The
folder appears whole or not at all.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from trainwright.checkpoints.format import Checkpoint
from trainwright.data.run_inputs import pinned, tokenizer_of
from trainwright.errors import InputError, Problem
from trainwright.registry.replace_folder import replace_folder
from trainwright.registry.restore import restore
from trainwright.runs.folder import RunFolder
from trainwright.spec.model import RunSpec

Dtype = Literal["auto", "fp32", "bf16", "fp16"]
ADAPTER = "adapter"
_SHARD = "5GB"
_TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
)  # fmt: skip


@dataclass(frozen=True)
class Exported:
    """What was written. ``adapter_only``: the folder holds adapters and needs the base model."""

    folder: Path
    step: int
    dtype: str
    adapter_only: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return {**asdict(self), "folder": str(self.folder)}


def export(
    run: RunFolder, spec: RunSpec, checkpoint: Checkpoint, target: Path, *, merge: bool = True, dtype: Dtype = "auto"
) -> Exported:
    """Write a checkpoint's model to ``target``; what stands there goes once the new one is whole and on the disk.

    With LoRA the folder holds the merged weights and ``adapter/`` the adapter alone; without ``merge`` it holds the
    adapter. ``dtype`` is that of the weights: ``auto`` is fp32 after training in fp32, else the type that the forward
    pass saw. Adapters stay in fp32.
    """
    _refuse_foreign(target)
    network = restore(run, spec, checkpoint)
    chosen = _dtype(spec, dtype)

    def fill(folder: Path) -> bool:
        adapter_only = False
        if spec.method == "lora":
            adapter_only = not merge
            _save_adapter(network, pinned(run, spec), folder if adapter_only else folder / ADAPTER)
        if not adapter_only:
            merged = network.merge_and_unload() if spec.method == "lora" else network
            _save_weights(merged, folder, chosen)
        copy_tokenizer(tokenizer_of(run, spec), folder, spec)
        return adapter_only

    adapter_only = replace_folder(target, fill)
    return Exported(target, checkpoint.step, "fp32" if adapter_only else chosen, adapter_only)


def copy_tokenizer(source: Path, target: Path, spec: RunSpec) -> None:
    """Copy a tokenizer's files as they are; the spec's own chat template replaces that of the tokenizer."""
    for name in _TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    if spec.data and spec.data.chat_template:
        shutil.copyfile(spec.data.chat_template, target / "chat_template.jinja")


def _save_weights(model: Any, folder: Path, dtype: str) -> None:
    import torch

    types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    with _plain_model():
        model.to(types[dtype]).save_pretrained(folder, max_shard_size=_SHARD)


@contextmanager
def _plain_model() -> Iterator[None]:
    """Keep accelerate from importing deepspeed wherever it is installed, to ask whether a model is wrapped by it.

    That import takes seconds and writes a warning about accelerators into the log of a stage that uses neither.
    """
    try:
        other: Any = importlib.import_module("accelerate.utils.other")
    except ImportError:
        yield
        return
    asked = other.is_deepspeed_available
    other.is_deepspeed_available = lambda: False
    try:
        yield
    finally:
        other.is_deepspeed_available = asked


def _save_adapter(network: Any, spec: RunSpec, folder: Path) -> None:
    """The adapter alone, naming the base model as the spec does, not by the cache that it was loaded from, and the
    commit that it was trained on.
    """
    assert spec.model is not None
    config = network.peft_config["default"]
    config.base_model_name_or_path, config.revision = spec.model.path, spec.model.revision
    network.save_pretrained(folder, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)  # an empty form that peft adds


def _dtype(spec: RunSpec, asked: Dtype) -> str:
    from trainwright.training.devices import current_device
    from trainwright.training.precision import choose_precision

    if asked != "auto":
        return asked
    if spec.precision != "auto":
        return spec.precision
    return choose_precision("auto", current_device()).name


def _refuse_foreign(target: Path) -> None:
    """Only a folder that looks like a model is replaced."""
    if target.exists() and not _replaceable(target):
        what = "exists and is no exported model"
        raise InputError([Problem(str(target), what=what, instead="name a folder that is not there yet")])


def _replaceable(target: Path) -> bool:
    if not target.is_dir():
        return False
    names = {path.name for path in target.iterdir()}
    return not names or bool(names & {"config.json", "adapter_config.json"})
