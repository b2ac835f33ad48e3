"""Real transformers models, on the meta device (shapes without memory) or on CPU."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def build_model() -> Any:
    """A function (model_type, config, device) → the transformers model that is trained."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from trainwright.models import family

    heads = {
        "causal": transformers.AutoModelForCausalLM,
        "masked": transformers.AutoModelForMaskedLM,
        "sequence_to_sequence": transformers.AutoModelForSeq2SeqLM,
    }

    def build(model_type: str, config: dict[str, Any], device: str = "meta", **kwargs: Any) -> Any:
        values = {key: value for key, value in config.items() if key != "model_type"}
        tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        parsed = transformers.CONFIG_MAPPING[model_type](**values, **tokens)
        with torch.device(device):
            return heads[family(model_type).objective].from_config(parsed, **kwargs)

    return build
