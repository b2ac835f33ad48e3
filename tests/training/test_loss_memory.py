"""The loss takes the bytes that the planner plans for it, by the allocator's own record."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from trainwright.models.layout import Layout
from trainwright.planner.constants import constants_for
from trainwright.planner.memory import Memory
from trainwright.planner.workload import Dims, Workload
from trainwright.training.loss import chunked_cross_entropy


def peak_bytes(function: Callable[[], None]) -> int:
    """Most bytes that were allocated at a time while ``function`` ran, beyond what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        function()
    changes = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = most = 0
    for event in sorted(changes, key=lambda event: event.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most


@pytest.mark.parametrize(("rows", "vocabulary", "width"), [(1200, 32_000, 32), (1200, 32_000, 96)])
def test_the_loss_takes_what_is_planned_for_it(rows: int, vocabulary: int, width: int) -> None:
    hidden = torch.randn(rows, width, requires_grad=True)
    head = torch.randn(vocabulary, width, requires_grad=True)
    labels = torch.randint(0, vocabulary, (rows,))
    measured = peak_bytes(lambda: chunked_cross_entropy(hidden, head, labels, 1.0 / rows)[0].backward())
    dims = Dims(
        hidden=width, layers=1, heads=4, kv_heads=4, head_dim=width // 4, ffn=width, gated=True, vocab=vocabulary,
        tied=False, max_positions=rows, attention_params=0, mlp_params=0, norm_params=0,
        embedding_params=0, head_params=vocabulary * width,
    )  # fmt: skip
    workload = Workload(dims, sequence_length=rows, global_batch_size=1, precision="fp32")
    planned = Memory(workload, constants_for("a100", "nvswitch", "native").stack).dynamic(Layout(), 0, 1)[1]
    assert planned == pytest.approx(measured, rel=0.05)
