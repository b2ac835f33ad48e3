"""Two ranks that meet in every step. ``raise``: rank 1 raises in step 2."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(int(sys.argv[2])):
    if sys.argv[1] == "raise" and step == 2 and rank == 1:
        raise ValueError("label 7 is outside of the vocabulary")
    value = torch.ones(1)
    dist.all_reduce(value)
    print(f"step {step} sum {value.item():g}", flush=True)
    time.sleep(0.1)
dist.destroy_process_group()
