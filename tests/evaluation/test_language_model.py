"""The language model behind tasks and samples: exact log-probabilities, deterministic answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import InputError

torch = pytest.importorskip("torch")


def by_hand(language_model: Any, context: str, continuation: str) -> float:
    """One forward pass of one unpadded row."""
    tokenizer = language_model.tokenizer
    before = tokenizer(context)["input_ids"] or [tokenizer.bos_token_id]
    after = tokenizer(continuation)["input_ids"]
    with torch.no_grad():
        logits = language_model.model(input_ids=torch.tensor([before + after])).logits[0].double().log_softmax(-1)
    return sum(float(logits[len(before) + i - 1, token]) for i, token in enumerate(after))


def test_log_likelihoods_equal_one_row_at_a_time(language_model: Any) -> None:
    pairs = [("the cat", " sat on a mat"), ("one", " two"), ("", "the cat"), ("the cat sat on a mat and saw", " one")]
    for score, pair in zip(language_model.log_likelihoods(pairs), pairs, strict=True):
        assert score == pytest.approx(by_hand(language_model, *pair), rel=1e-5)


def test_log_likelihoods_do_not_depend_on_the_company(language_model: Any) -> None:
    alone = language_model.log_likelihoods([("the cat", " sat")])
    crowd = language_model.log_likelihoods([("the cat", " sat"), *[("one two three " * 9, " red")] * 5])
    assert crowd[0] == pytest.approx(alone[0], rel=1e-5)


def test_too_long_a_context_loses_its_beginning_not_the_continuation(language_model: Any) -> None:
    long = "the cat sat " * 100
    [score] = language_model.log_likelihoods([(long, "on a mat")])
    kept = language_model.tokenizer(long + "on a mat")["input_ids"][-64:]
    with torch.no_grad():
        logits = language_model.model(input_ids=torch.tensor([kept])).logits[0].double().log_softmax(-1)
    target = len(language_model.tokenizer("on a mat")["input_ids"])
    expected = sum(float(logits[i - 1, kept[i]]) for i in range(len(kept) - target, len(kept)))
    assert score == pytest.approx(expected, rel=1e-5)


def test_completion_is_greedy_whatever_the_checkpoint_prefers(language_model: Any) -> None:
    prompt = language_model.tokenizer("the cat sat")["input_ids"]
    ids = list(prompt)
    for _ in range(6):
        with torch.no_grad():
            ids.append(int(language_model.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
        if ids[-1] == language_model.tokenizer.eos_token_id:
            break
    wanted = language_model.tokenizer.decode(ids[len(prompt) :], skip_special_tokens=True)
    own = language_model.model.generation_config
    before = own.to_dict()
    own.update(do_sample=True, temperature=3.0, repetition_penalty=5.0, top_p=0.5, num_beams=3)
    try:
        assert language_model.complete(["the cat sat"], 6) == [wanted]
    finally:
        own.update(**before)


def test_completions_are_the_same_alone_and_in_a_batch(language_model: Any) -> None:
    prompts = ["the cat", "one two three red green blue", "dogs"]
    together = language_model.complete(prompts, 8)
    assert together == [language_model.complete([prompt], 8)[0] for prompt in prompts]


def test_sampling_depends_on_the_seed_alone(language_model: Any) -> None:
    def sample(seed: int) -> str:
        torch.rand(seed + 1)  # the global generator must not matter
        return language_model.complete(["the cat"], 12, temperature=2.0, seed=seed)[0]

    state = torch.random.get_rng_state()
    first = sample(1)
    assert first == sample(1)
    assert len({first, sample(2), sample(3)}) > 1
    torch.random.set_rng_state(state)


def test_generation_leaves_the_global_random_state_alone(language_model: Any) -> None:
    state = torch.random.get_rng_state()
    language_model.complete(["the cat"], 4, temperature=1.0, seed=5)
    assert torch.equal(state, torch.random.get_rng_state())


def test_conversation_needs_a_chat_template(language_model: Any) -> None:
    with pytest.raises(InputError, match="no chat template"):
        language_model.complete([({"role": "user", "content": "the cat"},)], 2)


def test_conversation_goes_through_the_chat_template(language_model: Any) -> None:
    import copy

    tokenizer = copy.deepcopy(language_model.tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %} yes{% endif %}"
    )
    chatty = dataclasses.replace(language_model, tokenizer=tokenizer)
    asked = ({"role": "user", "content": "the cat"},)
    assert chatty.complete([asked], 5) == language_model.complete(["the cat yes"], 5)


def test_masked_model_fills_what_is_masked(tokenizer: Any) -> None:
    from transformers import BertConfig, BertForMaskedLM

    from trainwright.evaluation.language_model import LanguageModel

    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    torch.manual_seed(0)
    masked = LanguageModel(BertForMaskedLM(config).eval(), tokenizer)
    filled = masked.fill("the cat<mask> on")
    assert filled.startswith("the cat")
    assert filled.endswith(" on")
    assert "<mask>" not in filled
    with pytest.raises(InputError, match="write <mask>"):
        masked.fill("the cat")


def test_what_is_no_model_is_an_input_error(tmp_path: Path) -> None:
    from trainwright.evaluation.language_model import LanguageModel

    with pytest.raises(InputError, match=r"no model that can be loaded.*; name a folder"):
        LanguageModel.load(tmp_path)
