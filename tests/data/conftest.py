"""Tiny tokenizers, model folders and specs for the data room."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from trainwright.data.tokenizer import Tokenizer as LoadedTokenizer
from trainwright.spec.load import spec_from_values
from trainwright.spec.model import RunSpec

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
    "+ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CORPUS = [
    "The quick brown fox jumps over the lazy dog. It was a bright cold day in April.",
    "user assistant system question answer what is the capital of France? Paris is the capital!",
    "def add(a, b):\n    return a + b\n\nclass Point:\n    pass\n",
    "one two three four five six seven eight nine ten; words, more words, and again more words.",
    "0 1 2 3 4 5 6 7 8 9 10 11 12 13 20 21 31 40 42 55 56 63 64 70 77 78 85 89 96 98 99",
] * 5

SpecMaker = Callable[..., RunSpec]


def _write_model(folder: Path, tokenizer: Tokenizer, config: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"vocab_size": tokenizer.get_vocab_size()}))
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")  # whole, and without a tensor
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a causal model: byte-level BPE with ChatML tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(CORPUS, trainer)
    config = {"eos_token": "<|endoftext|>", "pad_token": {"content": "<|endoftext|>"}, "chat_template": CHATML}
    return _write_model(tmp_path_factory.mktemp("causal") / "model", tokenizer, config)


@pytest.fixture(scope="session")
def encoder_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a masked model: WordPiece with [CLS] text [SEP]."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    config = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    return _write_model(tmp_path_factory.mktemp("masked") / "model", tokenizer, config)


@pytest.fixture(scope="session")
def tokenizer(model: Path) -> LoadedTokenizer:
    """The causal model's tokenizer."""
    return LoadedTokenizer.load(model)


@pytest.fixture
def make_spec(model: Path) -> SpecMaker:
    """A spec over some sources; keywords go into ``data``, or with a leading underscore to the top."""

    def make(*sources: Any, **fields: Any) -> RunSpec:
        top = {name[1:]: value for name, value in fields.items() if name.startswith("_")}
        data = {name: value for name, value in fields.items() if not name.startswith("_")}
        listed = [str(source) if isinstance(source, Path) else source for source in sources]
        values = {"name": "t", "model": str(model), "sequence_length": 64, "data": {"sources": listed, **data}}
        return spec_from_values({**values, **top})

    return make


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Writes one JSON value a line; a text stands for itself, so that a bad line can be written."""

    def write(rows: Iterable[Any], name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    return write
