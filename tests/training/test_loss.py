"""The loss without full logits is the loss with them, and so is its gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainwright.training import loss


def plain(hidden: Tensor, head: Tensor, labels: Tensor, weight: float) -> Tensor:
    return F.cross_entropy(hidden @ head.T, labels, reduction="sum") * weight


@pytest.mark.parametrize("chunk", [1, 1600, 10**9])
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_value_and_gradients_equal_those_of_full_logits(
    rows: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "CHUNK_BYTES", chunk)
    torch.manual_seed(0)
    hidden = torch.randn(rows, 8, dtype=torch.float64, requires_grad=True)
    head = torch.randn(13, 8, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, 13, (rows,))
    weighted, total = loss.chunked_cross_entropy(hidden, head, labels, 0.25)
    assert not total.requires_grad
    torch.testing.assert_close(weighted, plain(hidden, head, labels, 0.25), rtol=1e-14, atol=0)
    torch.testing.assert_close(total * 0.25, weighted)
    ours = torch.autograd.grad(weighted * 3, (hidden, head))
    theirs = torch.autograd.grad(plain(hidden, head, labels, 0.75), (hidden, head))
    for got, want in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


def test_a_frozen_head_gets_no_gradient_and_costs_none() -> None:
    hidden = torch.randn(5, 8, requires_grad=True)
    head = torch.randn(13, 8)
    weighted, _ = loss.chunked_cross_entropy(hidden, head, torch.tensor([1, 2, 3, 4, 5]), 1.0)
    weighted.backward()
    assert hidden.grad is not None
    assert head.grad is None


def test_without_gradients_only_the_sum_is_computed() -> None:
    hidden, head = torch.randn(5, 8, requires_grad=True), torch.randn(13, 8, requires_grad=True)
    with torch.no_grad():
        weighted, total = loss.chunked_cross_entropy(hidden, head, torch.arange(5), 0.0)
    assert not weighted.requires_grad
    torch.testing.assert_close(total, plain(hidden, head, torch.arange(5), 1.0).detach())


def test_fp16_gradients_do_not_underflow_before_the_scale_is_in() -> None:
    torch.manual_seed(0)
    hidden = (torch.randn(4, 8) * 0.1).half().requires_grad_()
    head = (torch.randn(4096, 8) * 0.1).half().requires_grad_()
    weighted, _ = loss.chunked_cross_entropy(hidden, head, torch.arange(4), 2.0**16 / 1024)
    weighted.backward()
    wide_hidden, wide_head = hidden.detach().double().requires_grad_(), head.detach().double().requires_grad_()
    plain(wide_hidden, wide_head, torch.arange(4), 2.0**16 / 1024).backward()
    assert head.grad is not None
    assert wide_head.grad is not None
    error = (head.grad.double() - wide_head.grad).norm() / wide_head.grad.norm()
    assert error < 2e-3


def test_logits_path_equals_the_chunked_one() -> None:
    hidden, head, labels = torch.randn(6, 8), torch.randn(13, 8), torch.randint(0, 13, (6,))
    one, other = (
        loss.logits_cross_entropy(hidden @ head.T, labels, 0.5),
        loss.chunked_cross_entropy(hidden, head, labels, 0.5),
    )
    torch.testing.assert_close(one[0], other[0])
    torch.testing.assert_close(one[1], other[1])


def test_a_batch_without_targets_weighs_nothing() -> None:
    assert loss.token_weight(0, 2.0) == 0.0
    assert loss.token_weight(8, 2.0) == 0.25
