"""What hashing and committing cost over plain torch.distributed.checkpoint, and how long an asynchronous save blocks.

Every round saves the same state once by each arm, in random order, into a new folder on the same disk, and syncs the
disk in between. ``plain`` runs twice a round: the second is the A/A arm, and no difference inside its interval means
anything. Prints medians, ratios of pairs and their bootstrap intervals.

    python benchmarks/checkpoint_speed.py --mebibytes 512 --rounds 15
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

from trainwright.checkpoints.manager import CheckpointManager

State = dict[str, Any]


def make_state(mebibytes: int) -> State:
    """Weights and two AdamW moments in fp32, shaped like a small language model's layers."""
    per_layer = 4 * 3 * (1024 * 1024 + 1024)
    layers = max(1, mebibytes * 2**20 // per_layer)
    names = [f"layers.{number}.weight" for number in range(layers)] + [
        f"layers.{number}.norm" for number in range(layers)
    ]
    weights = {name: torch.randn(1024, 1024) if name.endswith("weight") else torch.randn(1024) for name in names}
    moments = {
        name: {"step": torch.tensor(1.0), "exp_avg": torch.randn_like(w), "exp_avg_sq": torch.rand_like(w)}
        for name, w in weights.items()
    }
    return {"model": weights, "optimizer": {"state": moments, "param_groups": [{"lr": 1e-3, "params": names}]}}


class Arms:
    """The ways to save, each giving the seconds that its caller was blocked."""

    def __init__(self, folder: Path, state: State):
        self.folder, self.state, self.count = folder, state, 0
        options: dict[str, Any] = {"spec_sha256": "0" * 64, "layout": None, "attempt": 1, "keep": 10**9}
        self.synchronous = CheckpointManager(folder / "synchronous", asynchronous=False, **options)
        self.asynchronous = CheckpointManager(folder / "asynchronous", asynchronous=True, **options)
        self.background: list[float] = []

    def plain(self) -> float:
        """Stock DCP with its defaults, which sync files."""
        start = time.perf_counter()
        dcp.save(self.state, checkpoint_id=str(self.folder / f"plain-{self.count}"), no_dist=True)
        return time.perf_counter() - start

    def hashed(self) -> float:
        """The manager, synchronous: hashes, manifest, commit."""
        return self.synchronous.save(self.count, 0, 0, self.state)

    def blocked(self) -> float:
        """The manager, asynchronous: only until the caller may go on."""
        start = time.perf_counter()
        seconds = self.asynchronous.save(self.count, 0, 0, self.state)
        self.asynchronous.settle()
        self.background.append(time.perf_counter() - start)
        return seconds

    def clean(self) -> None:
        """Delete what an arm wrote and let the disk come to rest."""
        for path in [*self.folder.glob("plain-*"), *self.folder.glob("*/step-*")]:
            shutil.rmtree(path)
        os.sync()

    def close(self) -> None:
        """End the managers."""
        self.synchronous.finish()
        self.asynchronous.finish()


def measure(folder: Path, state: State, rounds: int, seed: int) -> dict[str, list[float]]:
    """Seconds of every arm in every round, warm-up rounds apart."""
    arms, order = Arms(folder, state), random.Random(seed)
    calls: dict[str, Callable[[], float]] = {
        "plain": arms.plain,
        "plain again": arms.plain,
        "hashed": arms.hashed,
        "blocked": arms.blocked,
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    warm_up = 2
    for number in range(rounds + warm_up):
        names = list(calls)
        order.shuffle(names)
        for name in names:
            arms.count += 1
            spent = calls[name]()
            if number >= warm_up:
                seconds[name].append(spent)
            arms.clean()
        print(f"round {number + 1}/{rounds + warm_up}", end="\r", flush=True)
    seconds["in background"] = arms.background[warm_up:]
    arms.close()
    return seconds


def ratio(above: list[float], below: list[float], seed: int) -> dict[str, float]:
    """Median ratio of pairs with a 95 % bootstrap interval."""
    pairs = [a / b for a, b in zip(above, below, strict=True)]
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(pairs, k=len(pairs))) for _ in range(2000))
    return {"median": statistics.median(pairs), "low": medians[49], "high": medians[1949]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=512, help="size of the state")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", type=Path, help="disk to write to; default: a temporary folder here")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    warnings.filterwarnings("ignore", message="torch.distributed is disabled")
    state = make_state(options.mebibytes)
    with tempfile.TemporaryDirectory(dir=options.folder or Path.cwd()) as folder:
        seconds = measure(Path(folder), state, options.rounds, options.seed)
    result = {
        "mebibytes": options.mebibytes,
        "rounds": options.rounds,
        "seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "ratio to plain": {
            name: ratio(seconds[name], seconds["plain"], options.seed)
            for name in ("plain again", "hashed", "blocked")
        },
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    for name, value in result["seconds"].items():
        print(f"{name:15} {value:8.3f} s  {options.mebibytes / 1024 / value:6.2f} GiB/s")
    for name, value in result["ratio to plain"].items():
        print(f"{name:12} / plain  {value['median']:.3f}  [{value['low']:.3f}, {value['high']:.3f}]")


if __name__ == "__main__":
    main()
