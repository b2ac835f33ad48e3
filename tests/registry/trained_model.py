"""Models that differ from their base as if they had been trained, and real checkpoints of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from trainwright.runs.folder import RunFolder
from trainwright.spec.model import RunSpec


def save_checkpoint(run: RunFolder, spec: RunSpec, step: int) -> None:
    from trainwright.checkpoints.manager import CheckpointManager
    from trainwright.training.state import model_state

    network = trained(run, spec, step)
    with CheckpointManager(
        run.checkpoints, spec_sha256=spec.sha256, layout=None, attempt=0, keep=9, asynchronous=False,
        timeout=timedelta(seconds=30),
    ) as manager:  # fmt: skip
        manager.save(step, 8 * step, 256 * step, {"model": model_state(network), "trainer": {}})


def trained(run: RunFolder, spec: RunSpec, step: int) -> Any:
    """The spec's model with every trained weight moved by an amount that depends on the step."""
    import torch

    from trainwright.training.model import build_model

    network = build_model(
        spec, run.root.parent / "data", master=torch.float32, frozen=torch.float32, own_attention=False
    ).network
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.requires_grad:
                parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return network.eval()
