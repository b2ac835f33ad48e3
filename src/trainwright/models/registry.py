"""Which architectures are known: ``model_type`` → family, resolved on use, and which are refused with the reason.

Takes a ``config.json`` (as dict or path) or the name of a well-known model and gives a ``ModelShape``.
It must not import torch or transformers, and never touches the network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts import models as table
from trainwright.models.config import ConfigReader
from trainwright.models.family import Family
from trainwright.models.shape import ModelShape

_HERE = "trainwright.models.families"

#: ``model_type`` of a config → "module:attribute" of its ``Family``.
FAMILIES: dict[str, str] = {
    "bert": f"{_HERE}.bert:BERT",
    "bloom": f"{_HERE}.bloom:BLOOM",
    "deepseek_v2": f"{_HERE}.deepseek:DEEPSEEK_V2",
    "deepseek_v3": f"{_HERE}.deepseek:DEEPSEEK_V3",
    "distilbert": f"{_HERE}.bert:DISTILBERT",
    "falcon": f"{_HERE}.falcon:FALCON",
    "gemma": f"{_HERE}.gemma:GEMMA",
    "gemma2": f"{_HERE}.gemma:GEMMA2",
    "gemma3_text": f"{_HERE}.gemma:GEMMA3",
    "gpt2": f"{_HERE}.gpt2:GPT2",
    "gpt_neox": f"{_HERE}.gpt_neox:GPT_NEOX",
    "gptj": f"{_HERE}.gptj:GPTJ",
    "llama": f"{_HERE}.llama:LLAMA",
    "llama4_text": f"{_HERE}.llama4:LLAMA4",
    "mistral": f"{_HERE}.mistral:MISTRAL",
    "mixtral": f"{_HERE}.mixtral:MIXTRAL",
    "mpt": f"{_HERE}.mpt:MPT",
    "mt5": f"{_HERE}.t5:MT5",
    "nemotron": f"{_HERE}.nemotron:NEMOTRON",
    "olmo2": f"{_HERE}.olmo2:OLMO2",
    "opt": f"{_HERE}.opt:OPT",
    "phi": f"{_HERE}.phi:PHI",
    "phi3": f"{_HERE}.phi:PHI3",
    "qwen2": f"{_HERE}.qwen:QWEN2",
    "qwen2_moe": f"{_HERE}.qwen:QWEN2_MOE",
    "qwen3": f"{_HERE}.qwen:QWEN3",
    "qwen3_moe": f"{_HERE}.qwen:QWEN3_MOE",
    "roberta": f"{_HERE}.bert:ROBERTA",
    "smollm3": f"{_HERE}.smollm3:SMOLLM3",
    "t5": f"{_HERE}.t5:T5",
    "xlm-roberta": f"{_HERE}.bert:ROBERTA",
}

#: Multimodal configs whose language model is read from ``text_config``, and that model's type.
TEXT_MODELS = {"llama4": "llama4_text", "gemma3": "gemma3_text"}

_CONVOLUTIONS = "is built of convolutions over images, whose cost the transformer formulas do not describe"
_PATCHES = "reads images in patches, with no vocabulary, head or sequence length that the formulas could use"
_DIFFUSION = "is a diffusion model: its cost follows resolution and sampling, not tokens"
_RECURRENT = "mixes in state-space or recurrent layers, which the attention formulas do not describe"
_AUDIO = "reads audio through convolutions, whose cost the transformer formulas do not describe"

#: ``model_type`` (or a diffusers ``_class_name``) that is refused, and why.
REFUSED: dict[str, str] = {
    **dict.fromkeys(("resnet", "convnext", "convnextv2", "efficientnet", "mobilenet_v2", "regnet"), _CONVOLUTIONS),
    **dict.fromkeys(("vit", "deit", "swin", "beit", "dinov2", "clip", "siglip", "vit_mae", "segformer"), _PATCHES),
    **dict.fromkeys(
        (
            "stable-diffusion",
            "sdxl",
            "flux",
            "UNet2DConditionModel",
            "FluxTransformer2DModel",
            "SD3Transformer2DModel",
            "StableDiffusionPipeline",
            "StableDiffusionXLPipeline",
            "StableDiffusion3Pipeline",
            "FluxPipeline",
            "DiTTransformer2DModel",
        ),
        _DIFFUSION,
    ),
    **dict.fromkeys(("mamba", "mamba2", "jamba", "falcon_mamba", "rwkv", "recurrent_gemma", "bamba"), _RECURRENT),
    **dict.fromkeys(("whisper", "wav2vec2", "hubert", "wavlm"), _AUDIO),
}

GENERIC_PATH = (
    "describe it by numbers instead: --model-shape params=…,hidden=…,layers=…,heads=… "
    "(params alone is enough for memory of weights, gradients and optimizer)"
)


def family(model_type: str) -> Family:
    """The family of a ``model_type``; unknown or refused ones raise ``InputError`` with the way out."""
    model_type = TEXT_MODELS.get(model_type, model_type)
    if model_type not in FAMILIES:
        raise InputError([_no_family(model_type, "config.json")])
    module, attribute = FAMILIES[model_type].split(":")
    found: Family = getattr(import_module(module), attribute)
    return found


def from_config(config: Mapping[str, Any], name: str = "", where: str = "config.json") -> ModelShape:
    """The shape that a Hugging Face ``config.json`` describes.

    ``name`` is the model's name in plans, ``where`` the path in messages. Raises ``InputError`` with everything
    that is missing or impossible, and for architectures that are unknown or refused.
    """
    model_type = str(config.get("model_type") or config.get("_class_name") or "")
    reader = ConfigReader(config, where)
    if model_type in TEXT_MODELS:
        if isinstance(config.get("text_config"), Mapping):
            reader = reader.inner("text_config")
        model_type = TEXT_MODELS[model_type]
    if model_type not in FAMILIES:
        raise InputError([_no_family(model_type, where)])
    shape = family(model_type).shape(reader, name or str(config.get("_name_or_path") or model_type))
    reader.check()
    return shape


def load(model: str) -> ModelShape:
    """The shape of a model named in a spec: a folder or file with ``config.json``, or a well-known model's name."""
    path = Path(model)
    try:
        if path.is_dir():
            path = path / "config.json"
        is_file = path.is_file()
    except OSError as error:  # a name longer than a file's can be, a folder that may not be read
        what = f"cannot be read: {error.strerror}"
        raise InputError([Problem(model if len(model) < 80 else f"{model[:80]}…", what=what)]) from None
    if is_file:
        return from_config(_read_json(path), name=path.parent.name, where=str(path))
    row = table.find(model)
    if row is None:
        raise InputError([_unknown_model(model)])
    return from_config(row["config"], name=row["name"], where=f"facts/models.json:{row['name']}")


def refusal(model: str) -> str:
    """Why a name such as ``ResNet-50`` or ``sdxl`` is refused; empty when it is not one of those."""
    plain = model.lower().split("/")[-1].replace("_", "-")
    for known, reason in REFUSED.items():
        if plain.startswith(known.lower().replace("_", "-")):
            return reason
    return ""


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError as error:
        raise InputError([Problem(str(path), error.lineno, error.colno, what=f"is not JSON: {error.msg}")]) from None
    except RecursionError:
        raise InputError([Problem(str(path), what="is nested too deeply to be a config.json")]) from None
    except (OSError, ValueError) as error:  # also bytes that are no text, and integers of thousands of digits
        raise InputError([Problem(str(path), what=f"cannot be read: {error}")]) from None
    if not isinstance(content, dict):
        raise InputError([Problem(str(path), what="is not a JSON object", instead="a config.json is needed")])
    return content


def _no_family(model_type: str, where: str) -> Problem:
    if not model_type:
        return Problem(where, field="model_type", what="is missing", instead=GENERIC_PATH)
    reason = REFUSED.get(model_type) or refusal(model_type)
    if reason:
        return Problem(where, field="model_type", what=f"{model_type!r} {reason}", instead=GENERIC_PATH)
    near = did_you_mean(model_type, FAMILIES)
    return Problem(
        where,
        field="model_type",
        what=f"no family called {model_type!r} is known",
        instead=f"{near}; or {GENERIC_PATH}",
    )


def _unknown_model(model: str) -> Problem:
    reason = refusal(model)
    if reason:
        return Problem("model", what=f"{model!r} {reason}", instead=GENERIC_PATH)
    near = did_you_mean(model.lower(), table.names(), begun=True)
    far = len(near) > len(", ".join(table.names()))  # every name, because none is near
    instead = "give a folder with its config.json" if far else near
    return Problem(
        "model",
        what=f"{model!r} is neither a folder with a config.json nor a model of the built-in table",
        instead=f"{instead}; or {GENERIC_PATH}",
    )
