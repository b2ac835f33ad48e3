"""Run folders made of plain files, as a training run leaves them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from trainwright.checkpoints.format import FileRecord, Manifest
from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan, RankBytes, RankClass, Reason
from trainwright.runs.folder import RunFolder
from trainwright.spec.load import spec_from_values
from trainwright.spec.write import spec_to_yaml

BEGAN = 1_790_000_000.0


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def spec_values(**changes: Any) -> dict[str, Any]:
    return {
        "name": "quickstart",
        "model": "/models/smollm2",
        "method": "lora",
        "data": {"sources": ["/text"]},
        "duration": "40 steps",
        "sequence_length": 256,
        "register": "smollm2-python",
        **changes,
    }


def step_row(step: int) -> dict[str, Any]:
    loss = 1.6 + 0.9 * math.exp(-step / 12) + 0.05 * math.sin(step * 2.3)
    return {
        "v": 1, "t": BEGAN + 20 + 6 * step, "kind": "step", "step": step, "samples": 4 * step, "tokens": 1024 * step,
        "loss": loss, "lr": 1e-3 * min(1, step / 4) * (0.1 + 0.9 * (1 + math.cos(math.pi * step / 40)) / 2),
        "grad_norm": 0.8 + 2 * math.exp(-step / 6), "tokens_per_s": 172.0 + 6 * math.sin(step), "mfu": None,
        "memory_bytes": int(1.4e9 + 4e6 * step), "seconds": 6.0, "skipped": 0,
        "phases": {"data": 0.002, "compute": 5.4, "optimizer": 0.2, "checkpoint": 0.3 * (step % 10 == 0)},
    }  # fmt: skip


def eval_row(step: int, loss: float) -> dict[str, Any]:
    return {
        "v": 1, "t": BEGAN + 25 + 6 * step, "kind": "eval", "step": step, "samples": 4 * step, "tokens": 1024 * step,
        "eval_loss": loss, "perplexity": math.exp(loss), "bits_per_byte": loss / 2.9, "eval_tokens": 8160,
    }  # fmt: skip


def event(second: float, kind: str, rank: int | str = "s", attempt: int = 0, **fields: Any) -> dict[str, Any]:
    return {"v": 1, "t": BEGAN + second, "run_id": "r", "attempt": attempt, "rank": rank, "kind": kind, **fields}


EVENTS = [
    event(0, "started", stage="prepare"),
    event(12, "started", stage="train"),
    event(18, "started", 0, steps=40),
    event(82, "saved", 0, step=10, bytes=31_000_000, seconds=0.41),
    event(142, "saved", 0, step=20, bytes=31_000_000, seconds=0.39),
    event(150, "failed", 1, exception="RuntimeError: rank 1 lost <its> network", line="worker.py:12"),
    event(151, "failed", stage="train", code=1, failing_rank=1, exception="RuntimeError: rank 1 lost <its> network"),
    event(152, "restarted", attempt=1, stage="train", code=1, why="train ended with exit code 1"),
    event(153, "started", attempt=1, stage="train"),
    event(159, "started", 0, 1, step=20, steps=40),
    event(220, "saved", 0, 1, step=30, bytes=31_000_000, seconds=0.40),
    event(281, "saved", 0, 1, step=40, bytes=31_000_000, seconds=0.42),
    event(283, "started", attempt=1, stage="finish"),
    event(301, "started", attempt=1, stage="report"),
    event(303, "finished", attempt=1, phase="SUCCEEDED", ended="finished"),
]
EVALUATION = {
    "v": 1, "run_id": "quickstart-0a1b2c3d", "step": 40,
    "chosen": "held-out loss 1.7400, the lowest of 2 checkpoints",
    "tasks": [
        {
            "name": "colours", "kind": "multiple_choice", "score": 0.62, "metric": "accuracy", "rows": 50,
            "standard_error": 0.0686, "also": {},
            "examples": [
                {"prompt": "Grass is", "wanted": "green", "given": "green", "correct": True},
                {"prompt": "The <b>sky</b> is", "wanted": "blue", "given": "red", "correct": False},
            ],
        }
    ],
    "samples": [
        {
            "prompt": 'def read_json(path):\n    """Read a JSON file and return its content."""\n',
            "text": "    with open(path, encoding='utf-8') as file:\n        return json.load(file)\n",
            "before": "    try:\n        with open(path, 'r') as f:\n            print(json.load(f))",
        }
    ],
    "gate": {"text": "eval_loss < baseline", "holds": True,
             "sentence": "eval_loss < baseline holds: baseline = 2.41, eval_loss = 1.74"},
    "registered": {"name": "smollm2-python", "version": 3, "path": "/registry/3", "aliases": ["latest"]},
    "notes": [],
}  # fmt: skip


def build(root: Path, without: tuple[str, ...] = (), changes: dict[str, Any] | None = None) -> RunFolder:
    folder = RunFolder(root)
    root.mkdir(parents=True)
    spec = spec_from_values(spec_values(**(changes or {})))
    folder.spec_file.write_text(spec_to_yaml(spec))
    layout = Layout(dp_replicate=2, micro_batch_size=2, micro_batches=1)
    ranks = (
        RankClass(
            0, RankBytes(weights=540_000_000, gradients=10_000_000, optimizer=20_000_000, activations=400_000_000)
        ),
    )
    reasons = (Reason("2 processes a node: asked for in the spec.", "spec"),)
    plan = Plan(spec.sha256, layout, "this machine, 2 CPU cores", ranks=ranks, tokens_per_s=180.0, reasons=reasons)
    data = {
        "folder": "/data",
        "digest": "d1",
        "train": {"documents": 310, "tokens": 812_000},
        "eval": {"documents": 31},
        "counts": {"duplicates": 4},
    }
    metrics = [
        eval_row(0, 2.41),
        *map(step_row, range(1, 25)),
        *map(step_row, range(21, 41)),
        eval_row(20, 1.83),
        eval_row(40, 1.74),
    ]
    files = {
        "plan": lambda: folder.plan_file.write_text(plan.to_json()),
        "metrics": lambda: write_lines(folder.metrics, metrics),
        "events": lambda: write_lines(folder.events / "0-s.jsonl", EVENTS),
        "evaluation": lambda: folder.evaluation.write_text(json.dumps(EVALUATION)),
        "data": lambda: folder.data.write_text(json.dumps(data)),
        "checkpoints": lambda: write_checkpoints(folder, layout, spec.sha256),
    }
    for name, write in files.items():
        if name not in without:
            write()
    return folder


def write_checkpoints(folder: RunFolder, layout: Layout, sha256: str) -> None:
    for step in (30, 40):
        place = folder.checkpoints / f"step-{step:08d}"
        place.mkdir(parents=True)
        record = FileRecord("data.distcp", 31_000_000, "0" * 64)
        manifest = Manifest(step, 4 * step, 1024 * step, 1, layout, "dcp", {}, sha256, (record,))
        (place / "manifest.json").write_bytes(manifest.encode())
