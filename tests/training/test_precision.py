"""Number formats and the loss scale."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trainwright.training.devices import Device
from trainwright.training.parallel.data import DataParallel
from trainwright.training.precision import LossScale, choose_precision
from trainwright.training.step import Stepper

CPU = Device(torch.device("cpu"), 0, 0, 1)


def test_auto_is_fp32_on_a_cpu() -> None:
    chosen = choose_precision("auto", CPU)
    assert (chosen.compute, chosen.master, chosen.is_mixed) == (torch.float32, torch.float32, False)


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_weights_stay_in_fp32(name: str) -> None:
    chosen = choose_precision(name, CPU)
    assert chosen.is_mixed
    assert chosen.master == torch.float32
    assert chosen.frozen == chosen.compute


def test_the_scale_halves_on_overflow_and_doubles_after_enough_good_steps() -> None:
    scale = LossScale(True, value=8.0, growth_interval=3)
    values = []
    for finite in (True, True, False, True, True, True, True, False):
        scale.update(finite)
        values.append(scale.value)
    assert values == [8, 8, 4, 4, 4, 8, 8, 4]


def test_the_scale_never_falls_below_one_and_then_takes_no_blame() -> None:
    scale = LossScale(True, value=2.0)
    assert not scale.at_bottom
    for _ in range(3):
        scale.update(False)
    assert scale.value == 1.0
    assert scale.at_bottom


def test_a_scale_survives_a_checkpoint() -> None:
    scale = LossScale(True, value=32.0, good_steps=7)
    other = LossScale(True)
    other.load(scale.state())
    assert other == scale


class Line(nn.Module):
    """The loss is the weighted sum of one product; its gradient is known."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, batch: torch.Tensor, weight: float, row_weight: float) -> tuple[torch.Tensor, torch.Tensor]:
        total = (self.slope * batch).sum()
        return total * weight, total.detach()


def stepper(scale: LossScale, clip: float | None) -> tuple[Stepper, Line]:
    line = Line()
    sgd = torch.optim.SGD(line.parameters(), lr=1.0)
    return Stepper(DataParallel(line), sgd, CPU, choose_precision("fp32", CPU), scale, clip, 0, 0, False), line


@pytest.mark.parametrize("scale", [LossScale(False), LossScale(True, value=1024.0)])
def test_clipping_sees_the_true_gradient_whatever_the_scale(scale: LossScale) -> None:
    step, line = stepper(scale, clip=1.0)
    step.gradients(0, [torch.tensor([3.0, 4.0])], 1)  # type: ignore[list-item]
    update = step.update(1.0)
    assert update.applied
    assert update.norm.item() == pytest.approx(5.0)
    torch.testing.assert_close(line.slope.detach(), torch.tensor([1 - 0.6, 2 - 0.8]))


def test_an_overflow_changes_nothing_but_the_scale() -> None:
    step, line = stepper(LossScale(True, value=16.0), clip=1.0)
    step.gradients(0, [torch.tensor([float("inf"), 1.0])], 1)  # type: ignore[list-item]
    assert step.update(1.0).applied is False
    assert line.slope.tolist() == [1.0, 2.0]
    assert line.slope.grad is None
    assert step.scale.value == 8.0


def test_a_fused_optimizer_can_be_told_on_the_device_to_skip() -> None:
    line = Line()
    adam = torch.optim.AdamW(line.parameters(), lr=1.0, fused=True)
    step = Stepper(DataParallel(line), adam, CPU, choose_precision("fp32", CPU), LossScale(False), 1.0, 0, 0, False)
    step.check_each_step = False  # as on CUDA
    step.gradients(0, [torch.tensor([float("nan"), 1.0])], 1)  # type: ignore[list-item]
    assert step.update(1.0).applied is None
    assert line.slope.tolist() == [1.0, 2.0]
    step.gradients(1, [torch.tensor([1.0, 1.0])], 1)  # type: ignore[list-item]
    step.update(1.0)
    assert torch.isfinite(line.slope).all()
    assert line.slope.tolist() != [1.0, 2.0]
