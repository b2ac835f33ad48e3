"""What a trainer costs beside the computation: milliseconds a step over a bare loop, on a model of one tiny Linear.

All arms do the same: shuffled batches from the same sequences, forward, backward, clipping to a norm, fused AdamW, a
cosine schedule with warm-up, a log line every 50 steps. Arms run in random order within a round, in one process on
one thread; ``bare`` runs twice a round: the second is the A/A arm, and no difference inside its interval means
anything. Milliseconds are medians over a run's steps of CPU time (of all threads) and of wall time.

    python benchmarks/trainer_overhead.py --rounds 14 --steps 300
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
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainwright.data.order import GlobalOrder
from trainwright.data.sequences import Sequence
from trainwright.models.layout import Layout
from trainwright.runs.events import EventLog
from trainwright.spec.load import spec_from_values
from trainwright.training.devices import current_device, join_process_group
from trainwright.training.duration import Horizon
from trainwright.training.mesh import build_mesh, data_ranks
from trainwright.training.metrics import Metrics
from trainwright.training.model import Built
from trainwright.training.optim import build_optimizer
from trainwright.training.parallel.data import DataParallel
from trainwright.training.precision import LossScale, choose_precision
from trainwright.training.profiler import Profiler
from trainwright.training.signals import StopRequest
from trainwright.training.step import Stepper
from trainwright.training.trainer import Trainer

LENGTH, BATCH, ROWS, LOG_EVERY, WARM_UP = 16, 4, 256, 50, 20
Marks = list[tuple[float, float]]


def mark(marks: Marks) -> None:
    """Note wall and CPU time at the end of a step."""
    marks.append((time.perf_counter(), time.process_time()))


class Null(nn.Module):
    """One tiny Linear over the token ids; takes what each trainer hands to a model."""

    def __init__(self, marks: Marks):
        super().__init__()
        self.line = nn.Linear(LENGTH, 1)
        self.marks = marks

    def loss(self, input_ids: Tensor) -> Tensor:
        """Anything that has a gradient. A step ends where the next one's forward begins."""
        mark(self.marks)
        return self.line(input_ids.float() * 1e-3).square().mean()


class NullObjective(Null):
    """For our trainer."""

    def forward(self, batch: Any, weight: float, row_weight: float) -> tuple[Tensor, Tensor]:
        """(weighted loss, sum)."""
        loss = self.loss(batch.input_ids)
        return loss * (weight * BATCH * (LENGTH - 1)), loss.detach()


class NullForHugging(Null):
    """For Accelerate and the Hugging Face Trainer."""

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        """Loss by name."""
        return {"loss": self.loss(input_ids)}


def rows() -> list[Sequence]:
    """Sequences of random tokens."""
    draw, ones, zeros = np.random.default_rng(0), np.ones(LENGTH, bool), np.zeros(LENGTH, np.int32)
    return [Sequence(draw.integers(0, 1000, LENGTH).astype(np.int32), ones, zeros, i) for i in range(ROWS)]


class Rows(torch.utils.data.Dataset[dict[str, Tensor]]):
    """The same sequences for torch's loader."""

    def __init__(self, sequences: list[Sequence]):
        self._ids = [torch.from_numpy(s.input_ids.astype(np.int64)) for s in sequences]

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = self._ids[index % len(self._ids)]
        return {"input_ids": ids, "labels": ids}


def endless(loader: Any) -> Iterator[Any]:
    """Epoch after epoch."""
    while True:
        yield from loader


def cosine(steps: int) -> Callable[[int], float]:
    """The schedule that every arm follows."""
    return lambda step: min((step + 1) / 10, 0.5 * (1 + math.cos(math.pi * step / steps)))


def bare(sequences: list[Sequence], steps: int, folder: Path) -> Marks:
    """A loop written by hand with the same features."""
    marks: Marks = []
    model = NullForHugging(marks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(steps))
    loader = torch.utils.data.DataLoader(Rows(sequences), batch_size=BATCH, shuffle=True)
    batches = endless(loader)
    with (folder / "log.jsonl").open("a") as log:
        for step in range(steps):
            loss = model(**next(batches))["loss"]
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            if (step + 1) % LOG_EVERY == 0:
                record = {"step": step, "loss": loss.item(), "norm": norm.item(), "lr": schedule.get_last_lr()[0]}
                log.write(json.dumps(record) + "\n")
    return marks


def ours(sequences: list[Sequence], steps: int, folder: Path) -> Marks:
    """Trainwright's loop as it is, with the guard against NaN, phases and signals; nothing is evaluated or saved."""
    marks: Marks = []
    model = NullObjective(marks)
    spec = spec_from_values(
        {
            "name": "null", "model": "/none", "data": {"sources": ["/none"], "eval_fraction": 0}, "precision": "fp32",
            "sequence_length": LENGTH, "duration": f"{steps} steps", "global_batch_size": BATCH,
            "logging_steps": LOG_EVERY, "optimizer": {"lr": 1e-3}, "schedule": {"warmup": "10 steps"},
            "checkpoint": {"every": "1000000 steps"},
        }
    )  # fmt: skip
    layout = Layout(micro_batch_size=BATCH)
    device = current_device()
    join_process_group(device)
    optimizer = build_optimizer(model, spec.optimizer, "cpu")
    stepper = Stepper(
        DataParallel(model), optimizer, device, choose_precision("fp32", device), LossScale(False), 1.0, 0, 0, False
    )
    end = Horizon(steps, steps * BATCH, BATCH, LENGTH)
    prepared: Any = SimpleNamespace(
        train=sequences, eval=[], manifest=SimpleNamespace(tokenizer=SimpleNamespace(pad=0, eos=0))
    )
    trainer = Trainer(
        spec=spec,
        layout=layout,
        device=device,
        data=data_ranks(build_mesh(layout, "cpu")),
        prepared=prepared,
        order=GlobalOrder(ROWS, 0),
        end=end,
        built=Built(model, (), 17, 17),
        stepper=stepper,
        checkpoints=SimpleNamespace(),  # type: ignore[arg-type]  # never asked
        metrics=Metrics(folder / "metrics.jsonl", steps),
        events=EventLog(folder, "null", 1, 0),
        stop=StopRequest(),
        profiler=Profiler(None, folder, "cpu"),
    )
    trainer.loop()
    trainer.close()
    dist.destroy_process_group()  # the other arms would take it for theirs
    return marks


def accelerate(sequences: list[Sequence], steps: int, folder: Path) -> Marks:
    """The bare loop by Accelerate."""
    from accelerate import Accelerator

    marks: Marks = []
    accelerator = Accelerator(cpu=True)
    model = NullForHugging(marks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(steps))
    loader = torch.utils.data.DataLoader(Rows(sequences), batch_size=BATCH, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    batches = endless(loader)
    with (folder / "log.jsonl").open("a") as log:
        for step in range(steps):
            with accelerator.accumulate(model):
                loss = model(**next(batches))["loss"]
                accelerator.backward(loss)
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            if (step + 1) % LOG_EVERY == 0:
                record = {"step": step, "loss": loss.item(), "norm": float(norm), "lr": schedule.get_last_lr()[0]}
                log.write(json.dumps(record) + "\n")
    return marks


def hugging(sequences: list[Sequence], steps: int, folder: Path) -> Marks:
    """The Hugging Face Trainer."""
    from transformers import Trainer as HuggingTrainer
    from transformers import TrainingArguments

    marks: Marks = []
    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=BATCH, logging_steps=LOG_EVERY,
        save_strategy="no", report_to=[], disable_tqdm=True, lr_scheduler_type="cosine", warmup_steps=10,
        max_grad_norm=1.0, use_cpu=True, optim="adamw_torch_fused", learning_rate=1e-3, dataloader_num_workers=0,
    )  # fmt: skip
    HuggingTrainer(model=NullForHugging(marks), args=arguments, train_dataset=Rows(sequences)).train()
    return marks


ARMS: dict[str, Callable[[list[Sequence], int, Path], Marks]] = {
    "bare": bare, "bare again": bare, "trainwright": ours, "accelerate": accelerate, "hf trainer": hugging,
}  # fmt: skip


def step_milliseconds(marks: Marks) -> tuple[float, float]:
    """Median (wall, CPU) of a step, the first ones left out; CPU as a mean, for its clock is coarse and bursty."""
    kept = marks[WARM_UP:]
    wall = statistics.median(b[0] - a[0] for a, b in itertools.pairwise(kept))
    return wall * 1e3, (kept[-1][1] - kept[0][1]) / (len(kept) - 1) * 1e3


def interval(differences: list[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median difference of pairs."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(differences, k=len(differences))) for _ in range(2000))
    return medians[50], medians[1949]


def main() -> None:
    """Run all rounds and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=14)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    sequences, draw = rows(), random.Random(1)
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in ARMS}
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(options.rounds + 1):
            for name in draw.sample(list(ARMS), len(ARMS)):
                with open(os.devnull, "w") as nowhere:
                    saved, os.sys.stdout = os.sys.stdout, nowhere  # type: ignore[attr-defined]
                    try:
                        figure = step_milliseconds(ARMS[name](sequences, options.steps, Path(folder)))
                    finally:
                        os.sys.stdout = saved  # type: ignore[attr-defined]
                if round_number:  # the first round imports and warms up
                    figures[name].append(figure)
    table = {}
    for name, found in figures.items():
        row: dict[str, Any] = {}
        for number, clock in enumerate(("wall", "cpu")):
            pairs = [f[number] - b[number] for f, b in zip(found, figures["bare"], strict=True)]
            row[clock] = {
                "median_ms": statistics.median(f[number] for f in found),
                "over_bare_ms": statistics.median(pairs),
                "interval": interval(pairs),
            }
        table[name] = row
    if options.json:
        print(json.dumps(table, indent=2))
        return
    heads = [f"{clock + ' ms':>9}{'over bare':>11}  {'95 % interval':<17}" for clock in ("wall", "CPU")]
    print(f"{'arm':<14}" + "".join(heads))
    for name, row in table.items():
        cells = [
            f"{row[clock]['median_ms']:>8.3f}{row[clock]['over_bare_ms']:>+11.3f}  "
            f"{'[{:+.3f}, {:+.3f}]'.format(*row[clock]['interval']):<18}"
            for clock in ("wall", "cpu")
        ]
        print(f"{name:<14} " + "".join(cells))


if __name__ == "__main__":
    main()
