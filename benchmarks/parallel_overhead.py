"""What the trainer costs over a hand-written loop of torch's tensor or pipeline parallelism: ratios of step times.

Both arms train one Llama on two ranks: the same sequences, micro-batches, clipping over all ranks, fused AdamW and
cosine schedule. By hand that is ``parallelize_module`` with ``loss_parallel``, or ``PipelineStage`` and
``Schedule1F1B`` over two halves of the model; ours is the trainer's loop as it is. Arms run in random order within a
round, by the same two processes; ``by hand`` runs twice a round: the second is the A/A arm, and no ratio inside its
interval means anything. A step's time is rank 0's wall time; of a run the median.

    python benchmarks/parallel_overhead.py --rounds 10 --steps 40
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)

from trainwright.data.order import GlobalOrder
from trainwright.data.sequences import Sequence
from trainwright.models.layout import Layout
from trainwright.runs.events import EventLog
from trainwright.spec.load import spec_from_values
from trainwright.training import attention
from trainwright.training.devices import current_device
from trainwright.training.duration import Horizon
from trainwright.training.mesh import build_mesh, data_ranks
from trainwright.training.metrics import Metrics
from trainwright.training.model import Built, find_blocks
from trainwright.training.optim import build_optimizer
from trainwright.training.parallel import parallelise
from trainwright.training.precision import LossScale, choose_precision
from trainwright.training.profiler import Profiler
from trainwright.training.signals import StopRequest
from trainwright.training.step import Stepper
from trainwright.training.trainer import Trainer

RANKS, BATCH, ROWS, LOG_EVERY, WARM_UP = 2, 8, 64, 10, 3
LAYOUTS = {
    "tp": Layout(tp=2, micro_batch_size=4, micro_batches=2),
    "pp": Layout(pp=2, micro_batch_size=2, micro_batches=4),
}
Marks = list[float]


def sizes(options: argparse.Namespace) -> dict[str, Any]:
    """Of the Llama."""
    return {
        "hidden_size": options.width, "intermediate_size": 2 * options.width, "num_hidden_layers": options.layers,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 4096, "max_position_embeddings": 1024,
        "tie_word_embeddings": False,
    }  # fmt: skip


def network(options: argparse.Namespace, kind: str) -> Any:
    """The same weights for every arm and rank."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(LlamaConfig(**sizes(options)), attn_implementation=kind)


def rows(options: argparse.Namespace) -> list[Sequence]:
    """Full sequences of random tokens."""
    draw, length = np.random.default_rng(0), options.length
    ones, zeros = np.ones(length, bool), np.zeros(length, np.int32)
    return [Sequence(draw.integers(0, 4096, length).astype(np.int32), ones, zeros, i) for i in range(ROWS)]


def cosine(steps: int) -> Callable[[int], float]:
    """The schedule that every arm follows."""
    return lambda step: min((step + 1) / 10, 0.5 * (1 + math.cos(math.pi * step / steps)))


class Rows(torch.utils.data.Dataset[Tensor]):
    """The sequences for torch's loader, in our arm's order."""

    def __init__(self, options: argparse.Namespace, steps: int):
        order = GlobalOrder(ROWS, 0)
        ids = [torch.from_numpy(row.input_ids.astype(np.int64)) for row in rows(options)]
        self._rows = [ids[int(number)] for number in order.indices(0, steps * BATCH)]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Tensor:
        return self._rows[index]


def by_hand_tp(options: argparse.Namespace, folder: Path) -> Marks:
    """DTensor's styles on transformers' model; cross-entropy over the cut vocabulary."""
    layout, mesh = LAYOUTS["tp"], init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    model = network(options, "sdpa")
    block = {
        "self_attn.q_proj": ColwiseParallel(), "self_attn.k_proj": ColwiseParallel(),
        "self_attn.v_proj": ColwiseParallel(), "self_attn.o_proj": RowwiseParallel(),
        "mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel(), "mlp.down_proj": RowwiseParallel(),
    }  # fmt: skip
    for layer in model.model.layers:
        parallelize_module(layer, mesh, block)
    ends = {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        "lm_head": ColwiseParallel(use_local_output=False),
    }
    parallelize_module(model, mesh, ends)

    def step(ids: Tensor) -> Tensor:
        total = torch.zeros(())
        with loss_parallel():
            for part in ids.split(layout.micro_batch_size):
                logits = model(input_ids=part, use_cache=False).logits
                loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), part[:, 1:].flatten(), reduction="sum")
                loss = loss / (BATCH * (options.length - 1))
                loss.backward()
                total += loss.detach().full_tensor()
        return total

    def clip() -> Tensor:
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        cut = [g.to_local() for g in gradients if isinstance(g, DTensor)]
        return scaled(cut, [g for g in gradients if not isinstance(g, DTensor)])

    return by_hand(options, folder, model, step, clip)


class Half(nn.Module):
    """One stage: embedding or head beside its blocks, rotary positions made anew."""

    def __init__(self, model: Any, rank: int):
        super().__init__()
        half = len(model.model.layers) // 2
        self.embedding = model.model.embed_tokens if rank == 0 else None
        self.layers = model.model.layers[:half] if rank == 0 else model.model.layers[half:]
        self.rotary = model.model.rotary_emb
        self.norm, self.head = (None, None) if rank == 0 else (model.model.norm, model.lm_head)

    def forward(self, hidden: Tensor) -> Tensor:
        """Token ids or hidden states → hidden states or logits."""
        if self.embedding is not None:
            hidden = self.embedding(hidden)
        places = torch.arange(hidden.shape[1])[None]
        rotary = self.rotary(hidden, places)
        for layer in self.layers:
            hidden = layer(hidden, position_embeddings=rotary, position_ids=places)
        if self.norm is not None and self.head is not None:
            hidden = self.head(self.norm(hidden))
        return hidden


def by_hand_pp(options: argparse.Namespace, folder: Path) -> Marks:
    """Two halves under 1F1B; the norm is over both."""
    layout, rank = LAYOUTS["pp"], dist.get_rank()
    model = Half(network(options, "sdpa"), rank)

    def loss_of(logits: Tensor, ids: Tensor) -> Tensor:
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
        return loss / (BATCH * (options.length - 1))

    stage = PipelineStage(model, rank, RANKS, torch.device("cpu"))
    schedule = Schedule1F1B(stage, layout.micro_batches, loss_fn=loss_of, scale_grads=False)

    def step(ids: Tensor) -> Tensor:
        losses: list[Tensor] = []
        if rank == 0:
            schedule.step(ids)
        else:
            schedule.step(target=ids, losses=losses)
        total = torch.stack(losses).sum().detach() if losses else torch.zeros(())
        dist.broadcast(total, src=RANKS - 1)
        return total

    def clip() -> Tensor:
        return scaled([p.grad for p in model.parameters() if p.grad is not None], [])

    return by_hand(options, folder, model, step, clip)


def scaled(cut: list[Tensor], whole: list[Tensor]) -> Tensor:
    """Clip to a norm of one, over all ranks; ``whole`` ones every rank has alike."""
    square = torch.stack(torch._foreach_norm(cut)).square().sum()
    dist.all_reduce(square)
    if whole:
        square += torch.stack(torch._foreach_norm(whole)).square().sum()
    norm = square.sqrt()
    torch._foreach_mul_([*cut, *whole], (1.0 / (norm + 1e-6)).clamp(max=1.0))
    return norm


def by_hand(
    options: argparse.Namespace, folder: Path, model: nn.Module, step: Callable[[Tensor], Tensor],
    clip: Callable[[], Tensor],
) -> Marks:  # fmt: skip
    """The loop around either."""
    marks: Marks = []
    # An optimizer does not mix kinds of tensors in one group.
    kinds = [[p for p in model.parameters() if isinstance(p, DTensor) is cut] for cut in (True, False)]
    groups = [{"params": kind} for kind in kinds if kind]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(options.steps))
    loader = torch.utils.data.DataLoader(Rows(options, options.steps), batch_size=BATCH)
    with (folder / f"log-{dist.get_rank()}.jsonl").open("a") as log:
        for number, ids in enumerate(loader):
            marks.append(time.perf_counter())
            loss = step(ids)
            norm = clip()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            if (number + 1) % LOG_EVERY == 0:
                log.write(json.dumps({"step": number, "loss": loss.item(), "norm": float(norm)}) + "\n")
    return [*marks, loss.item()]


def ours(options: argparse.Namespace, folder: Path, layout: Layout) -> Marks:
    """Trainwright's loop, with its guard against NaN, agreement of ranks and signals; nothing is saved."""
    attention.register()
    spec = spec_from_values(
        {
            "name": "overhead", "model": "/none", "data": {"sources": ["/none"], "eval_fraction": 0},
            "precision": "fp32", "sequence_length": options.length, "duration": f"{options.steps} steps",
            "global_batch_size": BATCH, "logging_steps": LOG_EVERY,
            "optimizer": {"lr": 1e-3, "betas": [0.9, 0.95], "weight_decay": 0.0},
            "schedule": {"warmup": "10 steps"}, "clip": 1.0, "checkpoint": {"every": "1000000 steps"},
        }
    )  # fmt: skip
    device, mesh = current_device(), build_mesh(layout, "cpu")
    data, precision = data_ranks(mesh), choose_precision("fp32", device)
    model = network(options, attention.IMPLEMENTATION)
    built = Built(model, find_blocks(model), 0, 0)
    parallel = parallelise(built, layout, mesh, data, precision, device)
    optimizer = build_optimizer(model, spec.optimizer, "cpu")
    stepper = Timed(parallel, optimizer, device, precision, LossScale(False), 1.0, 0, data.stream, False)
    prepared: Any = SimpleNamespace(
        train=rows(options), eval=[], manifest=SimpleNamespace(tokenizer=SimpleNamespace(pad=0, eos=0))
    )
    trainer = Trainer(
        spec=spec,
        layout=layout,
        device=device,
        data=data,
        prepared=prepared,
        order=GlobalOrder(ROWS, 0),
        end=Horizon(options.steps, options.steps * BATCH, BATCH, options.length),
        built=built,
        stepper=stepper,
        checkpoints=SimpleNamespace(),  # type: ignore[arg-type]  # never asked
        metrics=Metrics(folder / "metrics.jsonl" if device.rank == 0 else None, options.steps),
        events=EventLog(folder, "overhead", 1, device.rank),
        stop=StopRequest(),
        profiler=Profiler(None, folder, "cpu"),
    )
    trainer.loop()
    trainer.close()
    last = 0.0
    if device.rank == 0:
        last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["loss"]
    return [*stepper.marks, last]


class Timed(Stepper):
    """Notes when each step begins."""

    def gradients(self, *given: Any, **named: Any) -> Any:
        """As it is."""
        self.__dict__.setdefault("marks", []).append(time.perf_counter())
        return super().gradients(*given, **named)


BY_HAND = {"tp": by_hand_tp, "pp": by_hand_pp}
ARMS = ("by hand", "by hand again", "trainwright")


def run(arm: str, kind: str, options: argparse.Namespace, folder: Path) -> tuple[float, float]:
    """(median milliseconds of a step, last loss)."""
    dist.barrier()
    marks = ours(options, folder, LAYOUTS[kind]) if arm == "trainwright" else BY_HAND[kind](options, folder)
    *times, loss = marks
    return statistics.median(b - a for a, b in itertools.pairwise(times[WARM_UP:])) * 1e3, loss


def interval(values: list[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[1949]


def work(rank: int, options: argparse.Namespace, folder: str) -> None:
    """One rank of all rounds; rank 0 writes the figures."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS))
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    draw = random.Random(1)  # the same on both ranks
    table = {}
    for kind in options.kinds:
        figures: dict[str, list[float]] = {name: [] for name in ARMS}
        losses: dict[str, float] = {}
        for round_number in range(options.rounds + 1):
            for arm in draw.sample(ARMS, len(ARMS)):
                with tempfile.TemporaryDirectory() as place:
                    figure, losses[arm] = run(arm, kind, options, Path(place))
                if round_number:  # the first round imports and warms up
                    figures[arm].append(figure)
        ratios = {
            arm: [a / b for a, b in zip(figures[arm], figures["by hand"], strict=True)]
            for arm in ARMS
            if figures[arm]
        }
        table[kind] = {
            arm: {
                "median_ms": statistics.median(figures[arm]), "ratio": statistics.median(ratios[arm]),
                "interval": interval(ratios[arm]), "last_loss": losses[arm],
            }
            for arm in ARMS
        }  # fmt: skip
    if rank == 0:
        Path(folder, "table.json").write_text(json.dumps(table, indent=2))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Start both ranks and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--kinds", nargs="+", choices=list(LAYOUTS), default=list(LAYOUTS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (options, folder), nprocs=RANKS)
        table = json.loads(Path(folder, "table.json").read_text())
    if options.json:
        print(json.dumps(table, indent=2))
        return
    print(f"{'':<4}{'arm':<15}{'ms a step':>10}{'ratio':>8}  {'95 % interval':<16}{'last loss':>10}")
    for kind, arms in table.items():
        for arm, row in arms.items():
            low, high = row["interval"]
            print(
                f"{kind:<4}{arm:<15}{row['median_ms']:>10.2f}{row['ratio']:>8.3f}  [{low:.3f}, {high:.3f}]  "
                f"{row['last_loss']:>10.6f}"
            )


if __name__ == "__main__":
    main()
