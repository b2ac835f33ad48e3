"""What the ranks of a pool compute, and the same by one process without any of the trainer's code."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from parity import families, mixtures
from training.tiny import VOCABULARY, llama_config
from trainwright.data.objectives import CausalObjective
from trainwright.data.order import GlobalOrder
from trainwright.data.sequences import Sequence
from trainwright.models.layout import Layout
from trainwright.spec.model import Experts
from trainwright.training import attention
from trainwright.training.agreement import Agreement
from trainwright.training.batches import Batches, Slicing, device_mover
from trainwright.training.devices import current_device
from trainwright.training.duration import Horizon
from trainwright.training.mesh import DataRanks, build_mesh, data_ranks
from trainwright.training.model import Built, find_blocks
from trainwright.training.parallel import parallelise
from trainwright.training.precision import LossScale, choose_precision
from trainwright.training.signals import StopRequest
from trainwright.training.step import Stepper

LENGTH = 18


@dataclass(frozen=True)
class Case:
    """One way to compute the same steps. ``samples`` not a multiple of the batch gives a partial last step.

    ``even``: rows of 16 tokens that are all targets; else some have none.
    """

    layout: dict[str, Any]
    model: str = "llama"
    tied: bool = True
    layers: int = 3
    lora: bool = False
    dropout: float = 0.0
    same_rows: bool = False
    samples: int = 16
    batch: int = 8
    steps: int = 5
    clip: float | None = None
    lr: float = 0.5
    precision: str = "fp64"
    recompute: str = "none"
    compile: bool = False
    fields: dict[str, Any] = field(default_factory=dict)
    experts: dict[str, Any] = field(default_factory=dict)
    even: bool = False


def sequences(case: Case) -> list[Sequence]:
    """Packed rows with between none and almost all of their tokens masked, some shorter than the others."""
    if case.even:
        numbers = np.random.default_rng(5).integers(1, VOCABULARY, (case.samples, LENGTH)).astype(np.int32)
        one, every = np.zeros(16, np.int32), np.ones(16, bool)
        return [Sequence(row[:16], every, one, index) for index, row in enumerate(numbers)]
    draw = np.random.default_rng(5)
    rows = []
    for index in range(case.samples):
        length = LENGTH if index % 3 else int(draw.integers(6, LENGTH))
        tokens = draw.integers(1, VOCABULARY, length).astype(np.int32)
        mask = draw.random(length) < (0.0 if index % 7 == 3 else draw.random())
        cuts = np.sort(draw.integers(1, length, int(draw.integers(0, 3))))
        documents = np.searchsorted(cuts, np.arange(length), side="right").astype(np.int32)
        rows.append(Sequence(tokens, mask, documents, index))
    return (
        [Sequence(rows[1].input_ids, np.ones(LENGTH, bool), rows[1].document_ids, i) for i in range(len(rows))]
        if (case.same_rows)
        else rows
    )


def targets(case: Case) -> list[int]:
    """Of each step. A step without any has no mean loss."""
    rows, order = sequences(case), GlobalOrder(case.samples, 3)
    found = []
    for start in range(0, case.samples, case.batch):
        batch = [rows[int(i)] for i in order.indices(start, min(start + case.batch, case.samples))]
        found.append(sum(int((r.loss_mask[1:] & (np.diff(r.document_ids) == 0)).sum()) for r in batch))
    return found


def config(case: Case) -> Any:
    """Of a tiny Llama, or of what the case names instead."""
    if case.model in mixtures.KINDS:
        return mixtures.config(case)
    sizes = {"vocab_size": 123, "num_hidden_layers": case.layers, "tie_word_embeddings": case.tied}
    return llama_config(**sizes | {"attention_dropout": case.dropout} | case.fields)


def network(case: Case, own_attention: bool, dtype: torch.dtype) -> nn.Module:
    """The tiny Llama, with adapters when asked; the same weights everywhere."""
    from transformers import AutoModelForCausalLM
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    # transformers rounds to fp32 here, and 1e-16 on the way in becomes 1e-8 on the way out.
    LlamaRMSNorm.forward = _norm
    attention.register()
    kind = attention.IMPLEMENTATION if own_attention else "sdpa"
    torch.manual_seed(7)
    model: nn.Module
    if case.model in families.KINDS:
        model = families.build(case, kind)
    else:  # of the experts' implementations only this one knows fp64
        options = {"experts_implementation": "eager"} if case.model in mixtures.KINDS else {}
        model = AutoModelForCausalLM.from_config(
            config(case), dtype=torch.float64, attn_implementation=kind, **options
        )
    model.to(dtype)
    mixtures.keep_precision(model)
    if not case.lora:
        return model
    from peft import LoraConfig, get_peft_model

    adapted: nn.Module = get_peft_model(
        model,
        LoraConfig(
            r=3, lora_alpha=5, lora_dropout=case.dropout,
            target_modules=mixtures.ATTENTION if case.model in mixtures.KINDS else "all-linear",
        ),
        autocast_adapter_dtype=False,
    )  # fmt: skip
    torch.manual_seed(8)
    for name, parameter in adapted.named_parameters():
        if parameter.requires_grad:  # B starts at zero, which would hide A's gradient
            # Drawn in fp64: fp32 would draw other numbers, not rounded ones.
            parameter.data = torch.empty(parameter.shape, dtype=torch.float64).normal_(std=0.2).to(dtype)
        assert parameter.requires_grad == ("lora_" in name)
    return adapted


def _norm(self: nn.Module, hidden: Tensor) -> Tensor:
    return self.weight * (hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + self.variance_epsilon))


@dataclass
class Job:
    """One case on one rank, built and ready to step."""

    case: Case
    layout: Layout
    mesh: DeviceMesh
    data: DataRanks
    model: nn.Module
    stepper: Stepper
    batches: Batches


def job(case: Case, optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD) -> Job:
    """The trainer's own parts for a case. Collective."""
    cut = {"recompute": case.recompute, "micro_batch_size": 1, **case.layout}
    ranks = cut.get("dp_replicate", 1) * cut.get("dp_shard", 1)
    layout = Layout.from_dict({"micro_batches": -(-case.batch // (cut["micro_batch_size"] * ranks)), **cut})
    device = current_device()
    precision = choose_precision(case.precision, device)
    mesh = build_mesh(layout, "cpu")
    data = data_ranks(mesh)
    model = network(case, True, precision.master)
    blocks = find_blocks(model)
    assert len(blocks) == case.layers
    parallel = parallelise(
        Built(model, blocks, 0, 0), layout, mesh, data, precision, device, compiled=case.compile,
        experts=Experts(**case.experts),
    )  # fmt: skip
    trained = [p for p in model.parameters() if p.requires_grad]
    stepper = Stepper(
        parallel, optimizer(trained, lr=case.lr), device, precision, LossScale(case.precision == "fp16"), case.clip,
        11, data.stream, False,
    )  # fmt: skip
    end = Horizon(-(-case.samples // case.batch), case.samples, case.batch, LENGTH)
    objective = families.Hidden() if case.model in families.ENCODERS else CausalObjective(0)
    if case.even:
        objective = families.Next()
    batches = Batches(
        sequences(case), GlobalOrder(case.samples, 3), objective,
        Slicing(data, layout.micro_batch_size), end,
        device_mover(
            device.torch, case.model not in families.ENCODERS,
            shape=(layout.micro_batch_size, 16 if case.even else LENGTH) if layout.pp > 1 else None,
            context=data.context, multiple=layout.tp if layout.sequence_parallel else 1,
        ),
    )  # fmt: skip
    return Job(case, layout, mesh, data, model, stepper, batches)


def steps(case: Case) -> list[dict[str, Any]]:
    """Loss, gradient norm, gradients and parameters of every step by the trainer's code. Collective."""
    made = job(case)
    model, stepper, parallel = made.model, made.stepper, made.stepper.parallel
    agreement = Agreement(made.data.counts)
    results = []
    for batch in made.batches:
        agreement.propose(batch, stop=False, save=False)
        agreed = agreement.result()
        if batch.step == case.steps:
            break
        gradients = stepper.gradients(batch.step, batch.micro_batches, agreed.valid_tokens, batch.rows)
        loss = gradients.total.double()
        own = float(loss)
        loss *= made.data.adds
        dist.all_reduce(loss)
        kept = {name: whole(p.grad) for name, p in model.named_parameters() if p.grad is not None}
        update = stepper.update(case.lr)
        if parallel.balance is not None:
            parallel.balance.after_step()
        after = {name: whole(p) for name, p in model.named_parameters() if p.requires_grad}
        results.append(
            {
                "loss": float(loss) / agreed.valid_tokens, "own": own, "norm": float(update.norm),
                "tokens": agreed.tokens, "gradients": kept, "parameters": after,
                "experts": None if parallel.balance is None else parallel.balance.report(),
            }
        )  # fmt: skip
    made.batches.close()
    return results


def reference(case: Case) -> list[dict[str, Any]]:
    """The same by one process: transformers' own attention, document by document, and plain autograd."""
    if case.model in mixtures.KINDS:
        return mixtures.reference(case)
    model = network(case, False, torch.float64).train()
    rows, order = sequences(case), GlobalOrder(case.samples, 3)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    results = []
    for start in range(0, min(case.samples, case.steps * case.batch), case.batch):
        batch = [rows[int(i)] for i in order.indices(start, min(start + case.batch, case.samples))]
        total, count = torch.zeros((), dtype=torch.float64), 0
        for row in batch:
            loss, targets = families.losses(model, case, row)
            total, count = total + loss, count + targets
        loss = total / count
        grads = dict(zip(trained, torch.autograd.grad(loss, list(trained.values())), strict=True))
        norm = float(
            torch.sqrt(sum((g.square().sum() for g in grads.values()), start=torch.zeros((), dtype=torch.float64)))
        )
        factor = 1.0 if case.clip is None else min(1.0, case.clip / (norm + 1e-6))
        with torch.no_grad():
            for name, parameter in trained.items():
                parameter -= case.lr * factor * grads[name]
        results.append(
            {
                "loss": loss.item(), "norm": norm, "tokens": sum(len(row.input_ids) for row in batch),
                "gradients": grads, "parameters": {name: p.detach().clone() for name, p in trained.items()},
            }
        )  # fmt: skip
    return results


def whole(tensor: Tensor) -> Tensor:
    """The full tensor on every rank."""
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def train_run(root: str, attempt: int, stop_after: int | None = None, wide: bool = False) -> list[dict[str, Any]]:
    """Train a run folder on the pool's ranks as they are; gives rank 0's metrics. ``stop_after``: as on a signal;
    ``wide``: in fp64, which a spec cannot ask for.
    """
    from trainwright.runs.folder import RunFolder
    from trainwright.training import trainer

    run = RunFolder(Path(root))
    stop = _StopAfter(run, stop_after)
    before = len(run.metrics.read_text().splitlines()) if run.metrics.exists() else 0
    dist.barrier()
    with in_fp64() if wide else contextlib.nullcontext():
        trainer.train(run, attempt, stop)
    lines = run.metrics.read_text().splitlines()[before:]
    dist.barrier()
    return [json.loads(line) for line in lines]


@contextlib.contextmanager
def in_fp64() -> Iterator[None]:
    """The trainer computes in fp64, whatever a spec says, and transformers' norms round nothing."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    from trainwright.training import trainer

    chosen, norm = trainer.choose_precision, LlamaRMSNorm.forward
    trainer.choose_precision = lambda _, device: chosen("fp64", device)
    LlamaRMSNorm.forward = _norm
    try:
        yield
    finally:
        trainer.choose_precision, LlamaRMSNorm.forward = chosen, norm


class _StopAfter(StopRequest):
    """Asks to stop once so many steps are in the metrics."""

    def __init__(self, run: Any, steps: int | None):
        super().__init__()
        self._run, self._steps = run, steps

    def __bool__(self) -> bool:
        if self._steps is None or not self._run.metrics.exists():
            return False
        return sum('"kind":"step"' in line for line in self._run.metrics.read_text().splitlines()) >= self._steps
