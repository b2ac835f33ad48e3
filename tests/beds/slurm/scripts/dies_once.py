"""Two ranks that meet in every step and save it; the second one is killed in step 4 of the first attempt."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
checkpoints = Path(os.environ["TRAINWRIGHT_RUN_DIR"]) / "checkpoints"
saved = max((int(path.parent.name[5:]) for path in checkpoints.glob("step-*/manifest.json")), default=0)
print(f"from step {saved}", flush=True)
for step in range(saved + 1, 7):
    if rank == 1 and step == 4 and saved == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    value = torch.ones(1)
    dist.all_reduce(value)
    if rank == 0 and step == 3:
        folder = checkpoints / f"step-{step:08d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "manifest.json").write_text(json.dumps({"v": 1, "step": step}))
    print(f"step {step} sum {value.item():g}", flush=True)
dist.destroy_process_group()
