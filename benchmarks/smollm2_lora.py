"""LoRA on SmolLM2-135M: tokens a second and peak memory of our worker against the Hugging Face Trainer's.

Same model folder, same prepared sequences (whole rows of one document, so both use plain causal attention), same
batch, fp32, one thread, same adapters by peft, fused AdamW, clipping, cosine schedule. Every run is a process of its
own, in random order within a round; ``trainwright again`` is the A/A arm. Figures are medians over rounds: tokens a
second of wall time (each run's median step) and of CPU time (mean over its steps, which other work on the machine
disturbs less); peak memory is the process's.

    python benchmarks/smollm2_lora.py --model FOLDER --rounds 5 --steps 8
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

LENGTH, BATCH, RANK, WARM_UP = 256, 2, 16, 2


def make_run(root: Path, model: str, steps: int) -> Path:
    """A run folder over one long document made of the standard library's sources."""
    from trainwright.data.prepare import prepare
    from trainwright.data.progress import silent
    from trainwright.data.report import record
    from trainwright.models.layout import Layout
    from trainwright.planner.plan import Plan
    from trainwright.spec.load import spec_from_values
    from trainwright.spec.write import spec_to_yaml

    root.mkdir(parents=True)
    library = Path(sysconfig.get_paths()["stdlib"])
    text = "\n".join(path.read_text(errors="ignore") for path in sorted(library.glob("*.py"))[:40])[:400_000]
    rows = root.parent / "text.jsonl"
    rows.write_text(json.dumps({"text": text}) + "\n")
    spec = spec_from_values(
        {
            "name": "smollm2", "model": model, "method": "lora", "lora": {"rank": RANK, "alpha": 32},
            "data": {"sources": [str(rows)], "eval_fraction": 0, "shuffle": False}, "sequence_length": LENGTH,
            "precision": "fp32",
            "global_batch_size": BATCH, "duration": f"{steps} steps", "checkpoint": {"every": "1000000 steps"},
        }
    )  # fmt: skip
    (root / "spec.yaml").write_text(spec_to_yaml(spec))
    plan = Plan(spec_sha256=spec.sha256, layout=Layout(micro_batch_size=BATCH), machine="benchmark")
    (root / "plan.json").write_text(plan.to_json())
    (root / "data.json").write_text(json.dumps(record(prepare(spec, root.parent / "data", silent))))
    return root


def now() -> tuple[float, float]:
    """Wall and CPU time of this process."""
    return time.perf_counter(), time.process_time()


def run_ours(root: Path) -> list[tuple[float, float]]:
    """Times at the end of each step, taken where its metrics are written."""
    from trainwright.runs.folder import RunFolder
    from trainwright.training.metrics import Metrics
    from trainwright.training.signals import StopRequest
    from trainwright.training.trainer import train

    marks: list[tuple[float, float]] = []
    write = Metrics.step

    def step(self: Metrics, **figures: Any) -> None:
        write(self, **figures)
        marks.append(now())

    Metrics.step = step  # type: ignore[method-assign]
    train(RunFolder(root), 1, StopRequest())
    return marks


def run_hugging(root: Path, steps: int) -> list[tuple[float, float]]:
    """Times at the end of each step of the Hugging Face Trainer on the same sequences."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments

    from trainwright.data.prepared import PreparedData
    from trainwright.runs.folder import RunFolder

    run = RunFolder(root)
    spec, prepared = run.spec(), PreparedData.of_run(run.data)
    torch.manual_seed(spec.seed)
    assert spec.model is not None
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(spec.model.path, dtype=torch.float32),
        LoraConfig(r=RANK, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    order = prepared.order(spec).indices(0, steps * BATCH)
    ids = [torch.from_numpy(prepared.train[int(number)].input_ids.astype("int64")) for number in order]
    marks: list[tuple[float, float]] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            marks.append(now())

    class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
        def __len__(self) -> int:
            return len(ids)

        def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
            return {"input_ids": ids[index], "labels": ids[index]}

    arguments = TrainingArguments(
        output_dir=str(root / "hf"), max_steps=steps, per_device_train_batch_size=BATCH, logging_steps=1,
        save_strategy="no", report_to=[], disable_tqdm=True, lr_scheduler_type="cosine", max_grad_norm=1.0,
        use_cpu=True, optim="adamw_torch_fused", learning_rate=2e-4,
    )  # fmt: skip
    Trainer(model=model, args=arguments, train_dataset=Rows(), callbacks=[Clock()]).train()
    return marks


def child(arm: str, root: Path, steps: int) -> None:
    """One run in this process; prints its figures."""
    import torch

    torch.set_num_threads(1)
    marks = (run_hugging(root, steps) if arm == "hf trainer" else run_ours(root))[WARM_UP - 1 :]
    wall = statistics.median(after[0] - before[0] for before, after in itertools.pairwise(marks))
    cpu = (marks[-1][1] - marks[0][1]) / (len(marks) - 1)
    tokens = LENGTH * BATCH
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"wall": tokens / wall, "cpu": tokens / cpu, "peak_bytes": peak}))


def main() -> None:
    """Run all rounds and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="SmolLM2-135M in Hugging Face format")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--child", nargs=2, metavar=("ARM", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]), options.steps)
        return
    arms = ["trainwright", "trainwright again", "hf trainer"]
    figures: dict[str, list[dict[str, float]]] = {arm: [] for arm in arms}
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for arm in draw.sample(arms, len(arms)):
                root = Path(folder) / f"{number}-{arms.index(arm)}" / "smollm2-00000001"
                make_run(root, options.model, options.steps)
                command = [sys.executable, __file__, "--model", options.model, "--steps", str(options.steps)]
                command += ["--child", arm, str(root)]
                environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
                if done.returncode:
                    sys.exit(f"{arm} ended with exit code {done.returncode}")
                figures[arm].append(json.loads(done.stdout.splitlines()[-1]))
    base = figures["hf trainer"]
    print(f"{'arm':<19}{'tokens/s':>10}  {'× HF [all rounds]':<22}{'tokens/CPU s':>14}  {'× HF':<22}{'peak GiB':>10}")
    for arm, found in figures.items():
        cells = []
        for clock, width in (("wall", 10), ("cpu", 14)):
            ratios = [f[clock] / b[clock] for f, b in zip(found, base, strict=True)]
            told = f"{statistics.median(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]"
            cells.append(f"{statistics.median(f[clock] for f in found):>{width}.1f}  {told:<22}")
        peak = statistics.median(f["peak_bytes"] for f in found) / 2**30
        print(f"{arm:<19}{''.join(cells)}{peak:>10.2f}")


if __name__ == "__main__":
    main()
