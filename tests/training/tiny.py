"""Tiny models and run folders that train in seconds. Everything is seeded."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from trainwright.data.prepare import prepare
from trainwright.data.progress import silent
from trainwright.data.report import record
from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan
from trainwright.runs.folder import RunFolder
from trainwright.spec.load import spec_from_values
from trainwright.spec.write import spec_to_yaml

VOCABULARY = 120
WORDS = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "omicron", "pi", "rho", "sigma", "tau",
]  # fmt: skip


def llama_config(**changes: Any) -> Any:
    """A Llama with awkward sizes: grouped heads that are no multiple of 8, an odd vocabulary."""
    from transformers import LlamaConfig

    sizes = {
        "vocab_size": VOCABULARY, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "tie_word_embeddings": True, "initializer_range": 0.2, "pad_token_id": 0, "bos_token_id": 0,
        "eos_token_id": 0,
    }  # fmt: skip
    return LlamaConfig(**{**sizes, **changes})


def write_model(folder: Path, config: Any = None) -> Path:
    """A folder with random weights and a tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    AutoModelForCausalLM.from_config(config or llama_config()).save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder()
    tokenizer.train_from_iterator(
        [" ".join(WORDS)] * 4, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<end>"])
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "pad_token": "<end>"}))
    return folder


def broken_model(folder: Path) -> Path:
    """A model with one weight that is not a number."""
    import torch
    from transformers import AutoModelForCausalLM

    write_model(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] = float("nan")
    model.save_pretrained(folder)
    return folder


def write_text(path: Path, rows: int = 60) -> Path:
    """JSONL of short documents, each different."""
    draw = random.Random(3)
    lines = [json.dumps({"text": " ".join(draw.choices(WORDS, k=draw.randint(3, 14)))}) for _ in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_encoder(folder: Path, pairs: bool) -> Path:
    """A tiny BERT with its tokenizer; ``pairs`` gives it the head for sentence pairs."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertForPreTraining

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        [" ".join(WORDS) + "."] * 4, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=48, max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(1)
    (BertForPreTraining if pairs else BertForMaskedLM)(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return folder


def write_sentences(path: Path, rows: int = 60) -> Path:
    """JSONL of documents of a few sentences each."""
    draw = random.Random(4)
    sentences = [". ".join(" ".join(draw.choices(WORDS, k=4)) for _ in range(3)) + "." for _ in range(rows)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in sentences))
    return path


def make_run(
    root: Path,
    folder: Path,
    text: Path,
    /,
    *,
    layout: dict[str, Any] | None = None,
    data_fields: dict[str, Any] | None = None,
    **fields: Any,
) -> RunFolder:
    """A run folder, ready for `train`: spec, plan and prepared data."""
    cut = Layout.from_dict({"micro_batch_size": 2, **(layout or {})})
    values = {
        "name": "tiny", "model": str(folder), "sequence_length": 24, "duration": "6 steps", "precision": "fp32",
        "data": {"sources": [str(text)], "eval_fraction": 0.2, **(data_fields or {})},
        "global_batch_size": cut.global_batch_size, "optimizer": {"lr": 1e-2}, "checkpoint": {"every": "2 steps"},
        **fields,
    }  # fmt: skip
    spec = spec_from_values(values)
    run = RunFolder(root)
    root.mkdir(parents=True)
    run.spec_file.write_text(spec_to_yaml(spec))
    run.plan_file.write_text(Plan(spec_sha256=spec.sha256, layout=cut, machine="test").to_json())
    if spec.data is not None:
        run.data.write_text(json.dumps(record(prepare(spec, root.parent / "data", silent))))
    return run


def train(run: RunFolder, attempt: int = 1, *, wait: bool = True, **variables: str) -> subprocess.Popen[str]:
    """`trainwright train` as a launcher starts it."""
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "TRAINWRIGHT_ATTEMPT": str(attempt), "CUDA_VISIBLE_DEVICES": "",
        **variables,
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "trainwright", "train", str(run.root)],
        env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if wait:
        process.wait(120)
    return process


def lines(run: RunFolder, kind: str) -> list[dict[str, Any]]:
    """The records of one kind in a run's metrics."""
    found = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    return [line for line in found if line["kind"] == kind]
