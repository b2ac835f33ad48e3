"""Optimizers: what is decayed, what is refused, what is computed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from training.tiny import llama_config
from trainwright.errors import AnswerNo
from trainwright.spec.model import Optimizer
from trainwright.training.optim import Lion, build_optimizer, can_skip_on_device, parameter_groups


def tiny(tied: bool) -> nn.Module:
    from transformers import AutoModelForCausalLM

    model: nn.Module = AutoModelForCausalLM.from_config(llama_config(tie_word_embeddings=tied))
    return model


@pytest.mark.parametrize("tied", [True, False])
def test_norms_and_embeddings_are_not_decayed(tied: bool) -> None:
    model = tiny(tied)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed, spared = ([names[id(p)] for p in group["params"]] for group in parameter_groups(model, 0.1))
    assert all("norm" in name or "embed" in name for name in spared)
    assert not any("norm" in name or "embed" in name for name in decayed)
    assert ("lm_head.weight" in decayed) == (not tied)
    assert len(decayed) + len(spared) == len(names)


def test_biases_are_not_decayed() -> None:
    decayed, spared = parameter_groups(nn.Linear(3, 2), 0.1)
    assert [tuple(p.shape) for p in decayed["params"]] == [(2, 3)]
    assert [tuple(p.shape) for p in spared["params"]] == [(2,)]
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)


def test_frozen_parameters_are_left_out_and_nothing_left_is_an_error() -> None:
    model = nn.Linear(3, 2).requires_grad_(False)
    with pytest.raises(AnswerNo, match="nothing is trained"):
        build_optimizer(model, Optimizer(), "cpu")


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd", "adafactor", "lion"])
def test_each_optimizer_lowers_a_loss(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = build_optimizer(model, Optimizer.model_validate({"name": name, "lr": 0.01}), "cpu")
    inputs = torch.randn(64, 4)
    losses = []
    for _ in range(60):
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] * 0.95


def test_adamw_is_fused_where_a_fused_kernel_exists() -> None:
    assert can_skip_on_device(build_optimizer(nn.Linear(2, 2), Optimizer(), "cpu"))


def test_eight_bits_are_refused_on_a_cpu_with_the_reason() -> None:
    with pytest.raises(AnswerNo, match="needs CUDA"):
        build_optimizer(nn.Linear(2, 2), Optimizer.model_validate({"name": "adamw8bit"}), "cpu")


def test_lion_follows_its_paper() -> None:
    weight = nn.Parameter(torch.tensor([1.0, -2.0]))
    lion = Lion([weight], lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)
    weight.grad = torch.tensor([3.0, -4.0])
    lion.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([1.0 * 0.95 - 0.1, -2.0 * 0.95 + 0.1]))
    torch.testing.assert_close(lion.state[weight]["exp_avg"], torch.tensor([0.03, -0.04]))
