"""What DeepSpeed's ranks compute with the trainer's data, loss and optimizer."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from parity.cases import LENGTH, Case, network, sequences
from trainwright.data.objectives import CausalObjective
from trainwright.data.order import GlobalOrder
from trainwright.models.layout import Layout
from trainwright.spec.load import spec_from_values
from trainwright.training.agreement import Agreement
from trainwright.training.batches import Batches, Slicing, device_mover
from trainwright.training.deepspeed import DeepSpeedStepper, _trained, _whole, build_stepper
from trainwright.training.devices import current_device
from trainwright.training.duration import Horizon
from trainwright.training.mesh import build_mesh, data_ranks
from trainwright.training.model import Built, find_blocks
from trainwright.training.precision import choose_precision


def steps(case: Case, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Loss, gradient norm, gradients and parameters of every step by DeepSpeed's engine. Collective."""
    from deepspeed.utils import safe_get_full_grad

    cut = {"recompute": case.recompute, "micro_batch_size": 1, **case.layout}
    ranks = cut.get("dp_replicate", 1) * cut.get("dp_shard", 1)
    layout = Layout.from_dict({"micro_batches": -(-case.batch // (cut["micro_batch_size"] * ranks)), **cut})
    values = {
        "name": "zero", "model": "/nowhere", "data": {"sources": ["/nowhere"]}, "engine": "deepspeed",
        "global_batch_size": case.batch, "precision": case.precision, "clip": case.clip or "off", "seed": 11,
        "optimizer": {"name": "sgd", "lr": case.lr, "weight_decay": 0.0}, **fields,
    }  # fmt: skip
    device, mesh = current_device(), build_mesh(layout, "cpu")
    precision, data = choose_precision(case.precision, device), data_ranks(mesh)
    model = network(case, True, precision.master)
    built = Built(model, find_blocks(model), 0, 0)
    stepper = build_stepper(built, spec_from_values(values), layout, mesh, data, precision, device)
    assert isinstance(stepper, DeepSpeedStepper)
    end = Horizon(-(-case.samples // case.batch), case.samples, case.batch, LENGTH)
    batches = Batches(
        sequences(case), GlobalOrder(case.samples, 3), CausalObjective(0), Slicing(data, layout.micro_batch_size),
        end, device_mover(device.torch, True),
    )  # fmt: skip
    agreement = Agreement(data.counts)
    results = []
    for batch in batches:
        if batch.step == case.steps:
            break
        agreement.propose(batch, stop=False, save=False)
        agreed = agreement.result()
        gradients = stepper.gradients(batch.step, batch.micro_batches, agreed.valid_tokens, batch.rows)
        loss = gradients.total.double()
        dist.all_reduce(loss)
        kept = {name: safe_get_full_grad(p).clone().view(_shape(p)) for name, p in _trained(model)}
        update = stepper.update(case.lr)
        wraps = stepper.parallel.wraps_optimizer
        after = {n: (_whole(p, None) if wraps else p.detach()).clone().view(_shape(p)) for n, p in _trained(model)}
        results.append(
            {
                "loss": float(loss) / agreed.valid_tokens, "norm": float(update.norm), "tokens": agreed.tokens,
                "gradients": kept, "parameters": after,
            }
        )  # fmt: skip
    batches.close()
    return results


def _shape(parameter: torch.nn.Parameter) -> torch.Size:
    shape: torch.Size = getattr(parameter, "ds_shape", parameter.shape)
    return shape
