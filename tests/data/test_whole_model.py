"""A folder of a model that is not whole is told before anything is trained, with the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainwright.data.whole_model import refuse_damaged
from trainwright.errors import InputError


def weights(values: int = 4) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [values], "data_offsets": [0, 4 * values]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4 * values)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "model.safetensors").write_bytes(weights())
    return tmp_path


def test_a_whole_folder_passes(folder: Path) -> None:
    refuse_damaged(folder, weights=True)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.safetensors", weights()[:-1], "model.safetensors: model.path: has"),
        ("model.safetensors", weights() + b"\0", "where its header tells of"),
        ("model.safetensors", weights()[:20], "is cut off inside its header (20 bytes)"),
        ("model.safetensors", b"\xff" * 5000, "is no safetensors file"),
        ("model.safetensors", b"", "is no safetensors file"),
        ("model.safetensors", (9).to_bytes(8, "little") + b"[" * 9, "its header is no list of tensors"),
        ("model.safetensors", (6).to_bytes(8, "little") + b'{"a":1}'[:6], "its header is no list of tensors"),
        ("config.json", b"\x00\x01", "config.json: model.path: is no JSON object"),
        ("config.json", b"[]", "config.json: model.path: is no JSON object"),
        ("config.json", b'{"hidden_size": -5}', "config.json: model.path: hidden_size is -5, not a whole number"),
        ("config.json", b'{"num_attention_heads": "four"}', 'num_attention_heads is "four", not a whole number'),
        ("config.json", b'{"num_hidden_layers": [3]}', "num_hidden_layers is [3], not a whole number"),
        ("config.json", None, "holds no config.json"),
        ("model.safetensors", None, "holds no weights in safetensors format"),
        ("model.safetensors.index.json", b'{"weight_map": {"w": "model-2.safetensors"}}',
         "model-2.safetensors: model.path: is missing"),
        ("model.safetensors.index.json", b"{}", "holds no weight_map"),
        ("model.safetensors.index.json", b'{"weight_map": {"w": 3}}', "holds no weight_map"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_the_file(folder: Path, name: str, content: bytes | None, said: str) -> None:
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        refuse_damaged(folder, weights=True)
    assert said in str(caught.value)


def test_widths_that_differ_by_layer_pass(folder: Path) -> None:
    (folder / "config.json").write_text('{"intermediate_size": [32, 64], "num_key_value_heads": null}')
    refuse_damaged(folder, weights=True)


def test_a_link_that_a_broken_download_left_is_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("../blobs/abc")
    with pytest.raises(
        InputError, match=r"model\.safetensors: model\.path: is a link to \.\./blobs/abc, which is not there"
    ):
        refuse_damaged(folder, weights=True)


def test_a_folder_in_place_of_a_file_is_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()
    with pytest.raises(InputError, match=r"model\.safetensors: model\.path: cannot be read: Is a directory"):
        refuse_damaged(folder, weights=True)


def test_training_from_scratch_needs_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"cut")
    refuse_damaged(folder, weights=False)


def test_old_weights_are_named(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"only pytorch_model.bin.*convert them"):
        refuse_damaged(folder, weights=True)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        refuse_damaged(tmp_path / "none", weights=True)
