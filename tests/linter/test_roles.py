"""What a file is taken for: other frameworks share words with ours, and data shares them with everything."""

from __future__ import annotations

import json

import pytest

from trainwright.linter.engine import Options, lint_texts

NANOTRON = """
checkpoints: {checkpoint_interval: 1000, checkpoints_path: checkpoints/run}
data: {dataset: null, num_loading_workers: 1, seed: 42}
general: {project: doremi, run: big, seed: 42}
logging: {iteration_step_info_interval: 1}
model: {ddp_bucket_cap_mb: 120, dtype: bfloat16}
optimizer: {adam_beta1: 0.9, zero_stage: 0}
parallelism: {dp: 2, pp: 1, tp: 8}
tokenizer: {tokenizer_name_or_path: t5-small}
tokens: {sequence_length: 1024, train_steps: 70000}
"""
WORDS = ["model", "version", "name", "data", "storage", "method", "compute", "objective", "learning_rate", "bf16"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", NANOTRON),
        (
            "vocab.json",
            json.dumps({word: number for number, word in enumerate(WORDS + [f"w{n}" for n in range(900)])}),
        ),
        ("small_vocab.json", json.dumps({word: number for number, word in enumerate(WORDS + list("abcdefghijklm"))})),
        (
            "requirements.txt",
            "transformers==4.25.1\ndeepspeed==0.7.7\n  --extra-index-url https://example.com/simple\n",
        ),
    ],
)
def test_what_only_shares_words_with_a_spec_is_left_alone(name: str, text: str) -> None:
    assert lint_texts({name: text}, Options(strict=True)) == []


@pytest.mark.parametrize("key", ["a" * 1100, "\u2028", "\x85"])
def test_json_keys_that_yaml_cannot_hold_are_harmless(key: str) -> None:
    config = json.dumps({key: 1, "zero_optimization": {"stage": 1}}, ensure_ascii=False)
    assert "TW009" not in {f.rule for f in lint_texts({"ds.json": config}, Options(strict=True))}


def test_a_sketch_on_a_page_is_no_error() -> None:
    lone = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: a\n      image: b:1\n"
    lone += "      resources: {requests: {nvidia.com/gpu: 1}}\n"
    page = f"```yaml\n{lone}```\n"
    assert [(f.rule, f.severity) for f in lint_texts({"kep.md": page}, Options(strict=True))] == [
        ("TW202", "warning")
    ]
    assert [(f.rule, f.severity) for f in lint_texts({"pod.yaml": lone}, Options(strict=True))] == [
        ("TW202", "error")
    ]
