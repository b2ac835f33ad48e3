"""A finished run in miniature: a tiny model, its tokenizer, prepared data and real checkpoints, without training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trained_model import save_checkpoint

from trainwright.runs.folder import RunFolder
from trainwright.spec.load import spec_from_values
from trainwright.spec.write import spec_to_yaml

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "red", "green", "blue", "yes", "no", "is", "of", "to"]


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Folder of a tiny model, made once for each set of settings."""
    torch = pytest.importorskip("torch")
    made: dict[str, Path] = {}

    def make(tied: bool = False, masked: bool = False) -> Path:
        name = f"base-{tied}-{masked}"
        if name in made:
            return made[name]
        from transformers import BertConfig, BertForPreTraining, LlamaConfig, LlamaForCausalLM

        folder = tmp_path_factory.mktemp(name)
        tokenizer = _tokenizer()
        tokenizer.save_pretrained(folder)
        torch.manual_seed(0)
        common = {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.2}  # fmt: skip
        if masked:
            BertForPreTraining(BertConfig(**common)).save_pretrained(folder)
        else:
            config = LlamaConfig(
                **common, num_key_value_heads=2, bos_token_id=1, eos_token_id=2, tie_word_embeddings=tied
            )
            LlamaForCausalLM(config).save_pretrained(folder)
        (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
        made[name] = folder
        return folder

    return make


def _tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast

    tokens = ["<unk>", "<s>", "</s>", "<mask>", "\n", *[f" {word}" for word in WORDS], *WORDS]
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({token: number for number, token in enumerate(tokens)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\n| ?[a-z]+|."), "isolated")
    backend.decoder = tokenizers.decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>", mask_token="<mask>"
    )


@pytest.fixture
def make_run(tmp_path: Path, base_model: Callable[..., Path]) -> Callable[..., RunFolder]:
    """A run's folder with a checkpoint for each step in ``losses``, whose weights depend on the step."""

    def make(
        losses: dict[int, float],
        *,
        tied: bool = False,
        masked: bool = False,
        sentence_pairs: bool = False,
        **changes: Any,
    ) -> RunFolder:
        text = tmp_path / "text"
        text.mkdir(exist_ok=True)
        for number in range(30):
            words = [WORDS[(number * 7 + place * place) % len(WORDS)] for place in range(40)]
            (text / f"{number}.txt").write_text(" ".join(words) + "\n")
        values = {
            "name": "tiny", "model": str(base_model(tied, masked)),
            "data": {"sources": [str(text)], "eval_fraction": 0.3},
            "sequence_length": 32, "precision": "fp32", "objective": "masked" if masked else "causal", **changes,
        }  # fmt: skip
        if sentence_pairs:
            values["masked"] = {"sentence_pairs": True}
        spec = spec_from_values(values)
        run = RunFolder(tmp_path / "runs" / "tiny-0a1b2c3d")
        run.root.mkdir(parents=True)
        run.spec_file.write_text(spec_to_yaml(spec))
        common = {"kind": "eval", "perplexity": 2.0, "bits_per_byte": None, "eval_tokens": 9}
        rows = [{**common, "step": step, "eval_loss": loss} for step, loss in {0: 3.5, **losses}.items()]
        run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for step in losses:
            save_checkpoint(run, spec, step)
        return run

    return make
