"""From a config, a folder or a name to a shape; and what people are told when that cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import InputError
from trainwright.models import FAMILIES, family, from_config, load
from trainwright.models.registry import REFUSED

from .architectures import CASES, SMALL


def test_every_registered_family_resolves() -> None:
    for model_type in FAMILIES:
        assert family(model_type).modules.stacks


def test_a_folder_and_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **SMALL}), "utf-8")
    by_folder = load(str(tmp_path))
    assert by_folder.parameters == load(str(tmp_path / "config.json")).parameters
    assert by_folder.name == tmp_path.name


def test_a_multimodal_config_is_read_through_its_text_model() -> None:
    text = {**SMALL, "head_dim": 14}
    whole = from_config({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 9}})
    assert whole.parameters == from_config({"model_type": "gemma3_text", **text}).parameters


def test_everything_wrong_is_told_at_once() -> None:
    config = {"model_type": "llama", **SMALL, "vocab_size": None, "num_hidden_layers": -2, "num_key_value_heads": 4}
    with pytest.raises(InputError) as caught:
        from_config(config, where="m/config.json")
    told = {problem.field for problem in caught.value.problems}
    assert told == {"vocab_size", "num_hidden_layers", "num_key_value_heads"}
    assert all(problem.path == "m/config.json" for problem in caught.value.problems)


@pytest.mark.parametrize("name", CASES)
def test_no_damaged_config_ends_in_a_traceback(name: str) -> None:
    model_type, config = CASES[name]
    lists = ("layer_types", "moe_layers", "mlp_only_layers", "no_rope_layers", "attn_config", "model_type")
    for key in (*config, *lists):
        for bad in (None, "x", -1, 0, [], {}, 1.5, True, ["x"], [[]], [-1]):
            try:
                from_config({"model_type": model_type, **config, key: bad})
            except InputError as error:
                assert error.problems  # noqa: PT017 - other values may be legal for the key


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("resnet", "convolutions"),
        ("vit", "patches"),
        ("UNet2DConditionModel", "diffusion"),
        ("mamba2", "state-space"),
        ("whisper", "audio"),
    ],
)
def test_what_is_not_a_text_transformer_is_refused_with_the_reason(model_type: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        from_config({"model_type": model_type})
    assert "--model-shape" in str(caught.value)


@pytest.mark.parametrize("name", ["ResNet-50", "microsoft/resnet-50", "sdxl", "stable-diffusion-xl-base-1.0"])
def test_names_of_image_models_are_refused_too(name: str) -> None:
    with pytest.raises(InputError, match=r"convolutions|diffusion") as caught:
        load(name)
    assert "--model-shape" in str(caught.value)


def test_no_family_is_both_known_and_refused() -> None:
    assert not set(FAMILIES) & set(REFUSED)


def test_unknown_architectures_and_names_say_the_way_out() -> None:
    with pytest.raises(InputError, match="did you mean qwen3") as caught:
        from_config({"model_type": "qwen33", **SMALL})
    assert "params=" in str(caught.value)
    with pytest.raises(InputError, match="model_type: is missing"):
        from_config({})
    with pytest.raises(InputError, match=r"did you mean llama-3\.1-8b"):
        load("llama-3.1-8bb")
    with pytest.raises(InputError, match=r"give a folder with its config\.json"):
        load("entirely-unheard-of")
    with pytest.raises(InputError, match="did you mean bert-large-uncased"):
        load("bert-large")
    with pytest.raises(InputError, match="one of mixtral-8x7b, mixtral-8x22b;"):
        load("mixtral")
    with pytest.raises(InputError, match="cannot be read"):
        load("x" * 5000)


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_damaged_files_are_told_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"config\.json"):
        load(str(path))


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "llama4", "smollm3", "qwen2"])
def test_windows_are_those_of_transformers(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    model_type, config = CASES[name]
    extra: dict[str, Any] = {"pad_token_id": 0}
    if name in ("smollm3", "qwen2"):
        extra |= {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2}
    theirs = transformers.CONFIG_MAPPING[model_type](**config, **extra)
    width = theirs.attention_chunk_size if name == "llama4" else theirs.sliding_window
    expected = [width if kind != "full_attention" else 0 for kind in theirs.layer_types]
    for values in ({**config, **extra}, theirs.to_dict()):
        shape = from_config({**values, "model_type": model_type})
        assert [shape.window(block) for block in range(shape.blocks)] == expected
    assert any(expected)


def test_neither_torch_nor_transformers_is_imported() -> None:
    code = (
        "import sys, trainwright.models as m, trainwright.facts.instances, trainwright.facts.machine_file;"
        "m.load('llama-3.1-8b').parameters; [m.family(t) for t in m.FAMILIES];"
        "print([x for x in ('torch', 'transformers', 'numpy', 'yaml', 'pydantic') if x in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_hostile_config_is_refused_before_its_layers_are_walked(tmp_path: Path) -> None:
    hostile = {"model_type": "llama", "hidden_size": 10**26, "num_hidden_layers": 10**11, "num_attention_heads": 2}
    with pytest.raises(InputError) as caught:
        from_config({**hostile, "vocab_size": 5, "intermediate_size": 7})
    assert {"hidden_size", "num_hidden_layers"} <= {p.field for p in caught.value.problems}
    path = tmp_path / "config.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested"):
        load(str(path))
