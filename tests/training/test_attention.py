"""Attention stays inside documents, proved by gradients, in every family that is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from training.tiny import VOCABULARY, llama_config
from trainwright.data.batch import collate
from trainwright.data.sequences import Sequence
from trainwright.errors import AnswerNo
from trainwright.training import attention
from trainwright.training.batches import device_mover
from trainwright.training.objective import PLAIN_HEADS, Objective

SMALL = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
GPT2_DROPOUT = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {}, "mistral": {"sliding_window": 4}, "qwen2": {}, "qwen3": {"head_dim": 8}, "olmo2": {}, "phi3": {},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, **dict.fromkeys(GPT2_DROPOUT, 0.0)},
    "gpt_neox": {"hidden_dropout": 0.0, "attention_dropout": 0.0}, "starcoder2": {}, "gemma": {"head_dim": 8},
    "mixtral": {"num_local_experts": 3, "num_experts_per_tok": 2}, "smollm3": {"pad_token_id": 0},
}  # fmt: skip


def build(family: str, implementation: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    attention.register()
    config = AutoConfig.for_model(family, **{**SMALL, **FAMILIES[family]})
    config._experts_implementation = "eager"  # grouped matrix products know no fp64
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float64, attn_implementation=implementation)


def packed_batch() -> Any:
    tokens = np.random.default_rng(0).integers(1, VOCABULARY, (2, 12)).astype(np.int32)
    documents = [np.array([0] * 5 + [1] * 7, np.int32), np.array([0] * 8 + [1] * 2, np.int32)]
    rows = [Sequence(tokens[i][: len(d)], np.ones(len(d), bool), d, i) for i, d in enumerate(documents)]
    return collate(rows), rows


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_documents_give_the_loss_and_gradients_of_separate_ones(family: str) -> None:
    batch, rows = packed_batch()
    ours, theirs = build(family, attention.IMPLEMENTATION), build(family, "eager")
    module = Objective(ours, "sdpa").train()
    loss, total = module(device_mover(torch.device("cpu"), True)(batch), 1.0)
    loss.backward()
    expected = torch.zeros((), dtype=torch.float64)
    for row in rows:
        for document in np.unique(row.document_ids):
            ids = torch.tensor(row.input_ids[row.document_ids == document].astype(np.int64))[None]
            logits = theirs.train()(input_ids=ids, use_cache=False).logits[0, :-1].double()
            expected = expected + torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
    expected.backward()
    # Norms of these models round to fp32, hence not closer than that.
    torch.testing.assert_close(total, expected.detach(), rtol=1e-6, atol=0)
    theirs_by_name = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        want = theirs_by_name[name].grad
        if want is not None:
            torch.testing.assert_close(
                parameter.grad, want, rtol=1e-4, atol=1e-6, msg=lambda text, n=name: f"{n}: {text}"
            )


def test_every_family_that_is_said_to_have_a_plain_head_is_tested_here() -> None:
    assert set(FAMILIES) == PLAIN_HEADS


def test_no_gradient_crosses_a_document_boundary() -> None:
    model = build("llama", attention.IMPLEMENTATION)
    table = model.get_input_embeddings()
    batch, _ = packed_batch()
    kept: list[torch.Tensor] = []
    table.register_forward_hook(lambda module, inputs, output: (output.retain_grad(), kept.append(output))[0])
    moved = device_mover(torch.device("cpu"), True)(batch)
    documents = attention.Documents(moved.document_ids, causal=True)
    hidden = model.base_model(
        input_ids=moved.input_ids, position_ids=moved.position_ids, documents=documents
    ).last_hidden_state
    hidden[0, 5:].square().sum().backward()
    gradient = kept[0].grad
    assert gradient is not None
    assert gradient[0, :5].abs().max() == 0
    assert gradient[0, 5:].abs().min() > 0
    assert gradient[1].abs().max() == 0


def test_whole_rows_need_no_mask_and_agree_with_masked_ones() -> None:
    documents = attention.Documents(None, causal=True)
    assert documents.mask(8, 0, torch.device("cpu")) is None
    ids = torch.zeros(2, 8, dtype=torch.long)
    mask = attention.Documents(ids, causal=True).mask(8, 0, torch.device("cpu"))
    assert mask is not None
    assert torch.equal(mask[0, 0], torch.ones(8, 8, dtype=torch.bool).tril())


def test_a_window_limits_how_far_a_query_looks_back() -> None:
    mask = attention.Documents(None, causal=True).mask(5, 2, torch.device("cpu"))
    assert mask is not None
    assert mask[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1],
    ]  # fmt: skip


def test_encoders_look_both_ways_within_a_document() -> None:
    ids = torch.tensor([[0, 0, 1, -1]])
    mask = attention.Documents(ids, causal=False).mask(4, 0, torch.device("cpu"))
    assert mask is not None
    assert mask[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize("asked", ["flash", "flex"])
def test_kernels_that_need_cuda_are_refused_elsewhere(asked: str) -> None:
    with pytest.raises(AnswerNo, match="needs a CUDA device"):
        attention.choose_kernel(asked, "cpu", torch.bfloat16)


def test_flash_is_refused_in_fp32() -> None:
    with pytest.raises(AnswerNo, match="bf16 or fp16"):
        attention.choose_kernel("flash", "cuda", torch.float32)


def test_soft_capped_scores_are_refused() -> None:
    x = torch.zeros(1, 1, 2, 4)
    with pytest.raises(AnswerNo, match="softcap"):
        attention.attend(torch.nn.Identity(), x, x, x, None, documents=attention.Documents(None, True), softcap=30.0)


def test_a_model_that_never_calls_our_attention_is_refused() -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(llama_config(), attn_implementation="sdpa")
    module = Objective(model, "sdpa")
    with pytest.raises(AnswerNo, match="attention interface"):
        module(device_mover(torch.device("cpu"), True)(packed_batch()[0]), 1.0)


@pytest.mark.parametrize("causal", [True, False])
def test_the_flex_mask_says_the_same(causal: bool) -> None:
    ids = torch.tensor([[0, 0, 0, 1, 1, 2, -1, -1]])
    documents = attention.Documents(ids, causal)
    blocks = documents.block_mask(8, 3, torch.device("cpu"))
    place = torch.arange(8)
    seen = torch.stack(
        [torch.stack([blocks.mask_mod(torch.tensor(0), torch.tensor(0), q, k) for k in place]) for q in place]
    )
    mask = attention.Documents(ids, causal).mask(8, 3, torch.device("cpu"))
    assert mask is not None
    assert torch.equal(seen.bool(), mask[0, 0])


def test_an_encoder_sees_only_its_own_document_too() -> None:
    from transformers import BertConfig, BertForMaskedLM

    attention.register()
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = BertForMaskedLM._from_config(config, dtype=torch.float64, attn_implementation=attention.IMPLEMENTATION)
    module = Objective(model, "sdpa").train()
    move = device_mover(torch.device("cpu"), False)
    batch, rows = packed_batch()
    batch.labels[:] = np.where(batch.document_ids >= 0, batch.input_ids, -100)  # every token is a target
    packed = module(move(batch), 1.0)[1]
    separate = 0.0
    for row in rows:
        for document in np.unique(row.document_ids):
            ids = row.input_ids[row.document_ids == document]
            alone = collate([Sequence(ids, np.ones(len(ids), bool), np.zeros(len(ids), np.int32), 0)])
            alone.labels[:] = alone.input_ids
            separate += float(module(move(alone), 1.0)[1])
    assert float(packed) == pytest.approx(separate, rel=1e-12)
