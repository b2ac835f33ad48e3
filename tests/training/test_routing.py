"""What sparse layers add to training: balancing by definition, capacity in order, counts, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from training.tiny import make_run, write_model, write_text
from trainwright.errors import AnswerNo, InputError
from trainwright.models.registry import family
from trainwright.spec.model import Experts
from trainwright.training.batches import DeviceBatch
from trainwright.training.parallel.expert import Exchange
from trainwright.training.routing import Policy, Routing, SparseLayer, Tally, balance, choose_policy, find_layers


def mixtral(**changes: Any) -> Any:
    from transformers import MixtralConfig

    sizes = {
        "vocab_size": 120, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2,
        "max_position_embeddings": 64, "initializer_range": 0.2, "pad_token_id": 0, "bos_token_id": 0,
        "eos_token_id": 0,
    }  # fmt: skip
    return MixtralConfig(**{**sizes, **changes})


def batch(documents: list[list[int]], targets: list[int]) -> DeviceBatch:
    ids = torch.tensor(documents)
    return DeviceBatch(
        torch.zeros_like(ids), torch.zeros_like(ids), ids, torch.tensor(targets),
        torch.zeros(len(targets), dtype=torch.int64), True,
    )  # fmt: skip


def one_layer(policy: Policy) -> tuple[Any, SparseLayer, Tally]:
    from transformers.models.mixtral.modeling_mixtral import MixtralDecoderLayer

    torch.manual_seed(0)
    block = MixtralDecoderLayer(mixtral(), 0).train()
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    layer, tally = SparseLayer(0, block, block.mlp.gate, block.mlp.experts), Tally(1, 4)
    layer.install(policy, 1, tally, Exchange(block.mlp.experts, 4, None))
    return block, layer, tally


def choose(layer: SparseLayer, routing: Routing, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    layer._current = routing
    out: tuple[Tensor, Tensor, Tensor] = layer.router(hidden)
    return out


def test_an_even_load_costs_as_much_as_a_token_has_experts() -> None:
    routing = Routing.of(batch([[0] * 4], [0, 1]), 1.0)
    probabilities = torch.full((4, 4), 0.25)
    assert balance(probabilities, torch.full((1, 4), 2), torch.tensor([4]), routing).tolist() == [2.0]
    uneven = balance(
        probabilities * torch.tensor([4.0, 0, 0, 0]), torch.tensor([[4, 4, 0, 0]]), torch.tensor([4]), routing
    )
    assert uneven.tolist() == [4.0]


def test_padding_neither_counts_nor_balances() -> None:
    _, layer, tally = one_layer(Policy(0.1, 0.0, None))
    hidden = torch.randn(5, 24)
    short = choose(layer, Routing.of(batch([[0, 0, 0]], [0, 1]), 1.0), hidden[:3])
    alone = tally.take()
    padded = choose(layer, Routing.of(batch([[0, 0, 0, -1, -1]], [0, 1]), 1.0), hidden)
    assert torch.equal(short[2], padded[2][:3])
    assert torch.allclose(tally.take(), alone)


def test_the_gradient_of_the_balancing_loss_reaches_the_router_with_its_weight() -> None:
    block, layer, tally = one_layer(Policy(0.5, 0.0, None))
    hidden = torch.randn(6, 24)
    routing = Routing.of(batch([[0, 0, 0], [0, 0, 1]], [0, 1, 4]), 0.25)
    _, weights, _ = choose(layer, routing, hidden)
    (got,) = torch.autograd.grad((weights * 0).sum(), block.mlp.gate.weight)
    logits = hidden @ block.mlp.gate.weight.T
    total = torch.zeros(())
    for row, targets in ((slice(0, 3), 2), (slice(3, 6), 1)):
        share = torch.zeros(4).index_add(0, logits[row].topk(2)[1].flatten(), torch.ones(6)) / 3
        total = total + targets * 4 * (share * logits[row].softmax(-1).mean(0)).sum()
    (want,) = torch.autograd.grad(total * 0.5 * 0.25, block.mlp.gate.weight)
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-7)
    assert tally.take()[0, -2:].tolist() == pytest.approx([3.0, total.item()])


def test_capacity_keeps_the_earliest_tokens_of_each_row_and_counts_the_others() -> None:
    block, layer, tally = one_layer(Policy(0.0, 0.0, 0.5))
    routing = Routing.of(batch([[0] * 8, [0] * 6 + [-1] * 2], [0]), 1.0)
    with torch.no_grad():
        block.mlp.gate.weight.copy_(torch.eye(4, 24))
    hidden = torch.zeros(16, 24)
    hidden[:, :4] = torch.tensor([3.0, 2.0, 1.0, 0.0])  # everybody chooses experts 0 and 1
    choose(layer, routing, hidden)
    assert layer._keep is not None
    # ceil(0.5 · 2 · tokens ÷ 4): two of the first row's eight tokens, two of the second's six
    assert layer._keep[:, 0].nonzero()[:, 0].tolist() == [0, 1, 8, 9]
    assert torch.equal(layer._keep[:, 0], layer._keep[:, 1])
    assert tally.take()[0].tolist()[:5] == [14.0, 14.0, 0.0, 0.0, 28.0 - 8.0]


def test_a_micro_batch_counts_once_however_often_its_layers_run() -> None:
    _, layer, tally = one_layer(Policy(0.0, 0.0, None))
    routing = Routing.of(batch([[0] * 3], [0]), 1.0)
    for _ in range(2):
        choose(layer, routing, torch.randn(3, 24))
    assert tally.take()[0, :4].sum() == 6


def test_the_balance_is_what_the_model_was_made_for() -> None:
    from transformers import AutoModelForCausalLM

    config = mixtral(router_aux_loss_coef=0.02)
    layers = find_layers(AutoModelForCausalLM.from_config(config), family("mixtral").modules.stacks)
    assert [layer.number for layer in layers] == [0, 1]
    assert choose_policy(Experts(), config, layers) == Policy(0.02, 0.0, None)
    assert choose_policy(Experts(coefficient=0.5, capacity=1.25), config, layers) == Policy(0.5, 0.0, 1.25)
    assert choose_policy(Experts(balance="none"), config, layers) == Policy(0.0, 0.0, None)
    with pytest.raises(AnswerNo, match="have none"):
        choose_policy(Experts(balance="bias"), config, layers)
    with pytest.raises(AnswerNo, match=r"names none; set experts\.coefficient"):
        choose_policy(Experts(balance="loss"), mixtral(router_aux_loss_coef=0.0), layers)


def test_adapters_on_fused_experts_are_refused_with_the_reason(tmp_path: Path) -> None:
    from trainwright.training.model import build_model

    model, text = write_model(tmp_path / "model", mixtral()), write_text(tmp_path / "rows.jsonl")
    lora = {"target_modules": ["q_proj", "gate_up_proj"]}
    spec = make_run(tmp_path / "tiny-00000001", model, text, method="lora", lora=lora).spec()
    with pytest.raises(InputError, match=r"lora\.target_modules.*gate_up_proj: one 3-D parameter of all experts"):
        build_model(spec, tmp_path, master=torch.float32, frozen=torch.float32, own_attention=False)
