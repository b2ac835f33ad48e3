"""A checkpoint back into a model: built from the spec on one process, filled with the trained weights.

Takes a run and a whole checkpoint, whatever number of ranks saved it; gives a transformers (or peft) model on the
CPU in fp32. A weight that would keep its initial value without anybody noticing is an error.
"""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

from trainwright.checkpoints.format import Checkpoint
from trainwright.data.locate import model_folder
from trainwright.data.run_inputs import pinned
from trainwright.errors import AnswerNo, InputError, MissingExtra, Problem
from trainwright.runs.folder import RunFolder
from trainwright.runs.progress import silent
from trainwright.spec.model import RunSpec

_SECTION = "model."


def cache_of(run: RunFolder) -> Path:
    """Where prepared data and fetched models of this run's neighbourhood are kept."""
    return run.root.parent / "data"


def restore(run: RunFolder, spec: RunSpec, checkpoint: Checkpoint, *, own_attention: bool = False) -> Any:
    """The trained model. ``own_attention`` keeps documents of packed sequences apart, as training does.

    AnswerNo for a checkpoint that another framework wrote or that does not fit the spec's model.
    """
    try:
        import torch

        from trainwright.training.model import build_model
    except ImportError:
        raise MissingExtra("reading a checkpoint's weights", "train") from None
    from trainwright.checkpoints import dcp

    if checkpoint.manifest.framework != "dcp":
        raise AnswerNo(
            f"{checkpoint.folder} was written by {checkpoint.manifest.framework}, not by the built-in trainer",
            "export it with the tools of that framework",
        )
    spec = pinned(run, spec)
    built = build_model(spec, cache_of(run), master=torch.float32, frozen=torch.float32, own_attention=own_attention)
    network: Any = built.network
    own = network.state_dict(keep_vars=True)
    saved = saved_names(checkpoint)
    _refuse_untrained(network, own, saved, checkpoint)
    weights = {name: own[name].detach() for name in sorted(saved) if name in own}
    dcp.read(checkpoint, {"model": weights}, dcp.Ranks(timedelta(minutes=30)))
    inner = network.get_base_model() if spec.method == "lora" else network
    inner.tie_weights()
    _cache_again(network, model_of(run, spec))
    return network.eval()


def saved_names(checkpoint: Checkpoint) -> set[str]:
    """Names of the tensors in a checkpoint's model section. Its files must be verified before: this is a pickle."""
    metadata = pickle.loads((checkpoint.folder / ".metadata").read_bytes())
    return {name.removeprefix(_SECTION) for name in metadata.state_dict_metadata if name.startswith(_SECTION)}


def model_of(run: RunFolder, spec: RunSpec) -> Path:
    """Folder of the model that training began with."""
    if spec.model is None:
        instead = "evaluate, export and register work on runs of the built-in trainer"
        raise InputError([Problem(str(run.root), field="model", what="is not set", instead=instead)])
    model = pinned(run, spec).model
    assert model is not None
    return model_folder(model, cache_of(run), silent)


def _refuse_untrained(network: Any, own: dict[str, Any], saved: set[str], checkpoint: Checkpoint) -> None:
    """Every weight must come from the checkpoint, be tied to one that does, or belong to the frozen base."""
    filled = {own[name].data_ptr() for name in saved if name in own}
    parameters = network.named_parameters(remove_duplicate=False)  # by every name: a tied head has two
    frozen = {name for name, parameter in parameters if not parameter.requires_grad}
    buffers = {name for name, _ in network.named_buffers()}
    missing = sorted(
        name
        for name, tensor in own.items()
        if name not in saved and name not in frozen and name not in buffers and tensor.data_ptr() not in filled
    )
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise AnswerNo(
            f"{checkpoint.folder} lacks {shown}", "it was saved by another spec; use the run's own spec.yaml"
        )


def _cache_again(network: Any, folder: Path) -> None:
    """Training runs without a key-value cache; generation, and whoever loads the export, wants what the model had."""
    from transformers import AutoConfig

    network.config.use_cache = getattr(AutoConfig.from_pretrained(folder), "use_cache", True)
