"""Whether a model's folder holds what training will read, found from names, headers and sizes alone.

A download that was cut off would otherwise be told by a rank, minutes later, in a library's words and without the
file. Takes a folder; raises InputError with every problem. It loads no weights and knows no library of models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.runs.folder import read_json

_LENGTH_BYTES = 8  # a safetensors file begins with the length of its header, little-endian
_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
_FIELD = "model.path"
_AGAIN = "fetch the model again"
_BY_LAYER = frozenset({"intermediate_size", "num_attention_heads", "num_key_value_heads"})  # a list in some families
_COUNTS = ("hidden_size", "num_hidden_layers", "vocab_size", *sorted(_BY_LAYER))
_OLD_WEIGHTS = ("pytorch_model*.bin", "*.ckpt", "tf_model.h5", "*.gguf")


def refuse_damaged(folder: Path, *, weights: bool) -> None:
    """InputError when config or, with ``weights``, a safetensors file is missing, cut off or none at all."""
    problems = list(_config(folder))
    if not problems and weights:
        problems = list(_weights(folder))
    if problems:
        raise InputError(problems)


def _config(folder: Path) -> Iterator[Problem]:
    path = folder / "config.json"
    if not path.is_file():
        what = f"{folder} holds no config.json" if folder.is_dir() else f"{folder} does not exist"
        yield _problem("spec.yaml", what, "name a folder in Hugging Face format, or a Hub id such as owner/name")
        return
    values = read_json(path)
    if values is None:
        yield _problem(str(path), "is no JSON object", _AGAIN)
        return
    for name in _COUNTS:
        value = values.get(name)  # null, and what is not there, mean a default
        counts = value if isinstance(value, list) and value and name in _BY_LAYER else [value]
        if value is not None and not all(type(count) is int and count > 0 for count in counts):
            yield _problem(str(path), f"{name} is {json.dumps(value)}, not a whole number above 0", _AGAIN)


def _weights(folder: Path) -> Iterator[Problem]:
    present = {path.name: path for path in sorted(folder.glob("*.safetensors"))}
    needed: set[str] = set()
    for index in sorted(folder.glob("*.safetensors.index.json")):
        named = (read_json(index) or {}).get("weight_map")
        if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
            yield _problem(str(index), "holds no weight_map from tensors to files", _AGAIN)
            continue
        needed |= set(named.values())
    for name in sorted(needed - present.keys()):
        yield _problem(str(folder / name), "is missing; the index beside it names it", _AGAIN)
    if not present and not needed:
        old = sorted(path.name for kind in _OLD_WEIGHTS for path in folder.glob(kind))
        only = f", only {old[0]}" if old else ""
        instead = "convert them to safetensors, or set model.from_scratch: true" if old else (
            f"{_AGAIN}, or set model.from_scratch: true")  # fmt: skip
        yield _problem(str(folder), f"holds no weights in safetensors format{only}", instead)
    for path in present.values():
        wrong = _damage(path)
        if wrong:
            yield _problem(str(path), wrong, _AGAIN)


def _damage(path: Path) -> str:
    """What is wrong with a safetensors file as far as its header and size tell; empty when nothing is."""
    try:
        return _wrong_header(path)
    except FileNotFoundError:
        return f"is a link to {path.readlink()}, which is not there"  # as a download that broke off leaves it
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _wrong_header(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(_LENGTH_BYTES), "little")
        if size < _LENGTH_BYTES or length > _LONGEST_HEADER or length < 2:
            return "is no safetensors file"
        if length > size - _LENGTH_BYTES:
            return f"is cut off inside its header ({size:,} bytes)"
        try:
            header = json.loads(handle.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            whole = _LENGTH_BYTES + length + max(ends, default=0)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            return "is no safetensors file: its header is no list of tensors"
    if whole != size:
        return f"has {size:,} bytes where its header tells of {whole:,}"
    return ""


def _problem(where: str, what: str, instead: str) -> Problem:
    return Problem(where, field=_FIELD, what=what, instead=instead)
