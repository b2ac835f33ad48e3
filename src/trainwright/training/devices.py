"""The device of this process, its process group and its threads.

Reads torchrun's environment variables; gives a frozen Device. Nothing else in the trainer asks which device it is on.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

#: As the spec has it by default.
COLLECTIVE_TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True)
class Device:
    """Where this process computes, and its place among the others."""

    torch: torch.device
    rank: int
    local_rank: int
    world_size: int

    @property
    def type(self) -> str:
        """``cpu`` or ``cuda``."""
        return str(self.torch.type)

    @property
    def is_cpu(self) -> bool:
        """True where reading a tensor's value costs nothing."""
        return self.type == "cpu"

    def peak_memory(self) -> int:
        """Most bytes ever in use: of the allocator on CUDA, of the whole process on a CPU."""
        if self.is_cpu:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return int(torch.cuda.max_memory_allocated(self.torch))

    def seed(self, seed: int) -> None:
        """Seed the generators that dropout draws from; about a microsecond on a CPU."""
        torch.default_generator.manual_seed(seed)
        if not self.is_cpu:
            torch.cuda.default_generators[self.torch.index].manual_seed(seed)


def current_device() -> Device:
    """Choose the device from torchrun's variables; a process started without torchrun is rank 0 of 1."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available():
        chosen = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(chosen)
    else:
        chosen = torch.device("cpu")
    return Device(chosen, int(os.environ.get("RANK", "0")), local_rank, int(os.environ.get("WORLD_SIZE", "1")))


def join_process_group(device: Device, timeout: timedelta = COLLECTIVE_TIMEOUT) -> None:
    """Meet the other ranks. Every process has a CPU backend too: what ranks agree on never waits for a device."""
    if dist.is_initialized():
        return
    backend = "gloo" if device.is_cpu else "cpu:gloo,cuda:nccl"
    bound = None if device.is_cpu else device.torch
    if "MASTER_ADDR" not in os.environ:
        store = dist.HashStore()
        dist.init_process_group(backend, store=store, rank=0, world_size=1, timeout=timeout, device_id=bound)
        return
    dist.init_process_group(backend, timeout=timeout, device_id=bound)


def bound_collectives(timeout: timedelta) -> None:
    """Give every process group of this rank the same patience. Groups made from another do not take over its own."""
    for group in list(dist.distributed_c10d._world.pg_map):
        dist.set_timeout(timeout, group)
