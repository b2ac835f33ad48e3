"""What the ranks of the pool run: a small awkward model under each kind of data parallelism, saved and loaded."""

from __future__ import annotations

import errno
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from trainwright.checkpoints.disk import Disk
from trainwright.checkpoints.failures import CheckpointFailed
from trainwright.checkpoints.manager import CheckpointManager

from .conftest import make_state, open_manager
from .faults import FailingDisk

Kind = Literal["single", "ddp", "fsdp", "hsdp"]
Full = dict[str, Any]


class Awkward(nn.Module):
    """No dimension divides by two or four ranks; one weight is tied; one parameter has fewer numbers than ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(13, 7)
        self.block = nn.Sequential(nn.Linear(7, 9), nn.LayerNorm(9), nn.Linear(9, 7))
        self.head = nn.Linear(7, 13, bias=False)
        self.head.weight = self.embedding.weight
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits [B, T, 13] of token ids [B, T]."""
        return self.head(self.block(self.embedding(ids)) * self.gain)


class Training:
    """A model, its AdamW and a step that sees the same batch on every rank, so that layouts compute the same."""

    def __init__(self, kind: Kind, seed: int):
        torch.manual_seed(seed)
        model: nn.Module = Awkward()
        if kind == "ddp":
            model = DistributedDataParallel(model)
        elif kind in ("fsdp", "hsdp"):
            world = dist.get_world_size()
            shape, names = (
                ((world,), ("dp_shard",)) if kind == "fsdp" else ((2, world // 2), ("dp_replicate", "dp_shard"))
            )
            mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
            fully_shard(model.block, mesh=mesh)
            fully_shard(model, mesh=mesh)
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(self, number: int) -> float:
        """One optimizer step on batch ``number``; its loss."""
        ids = torch.randint(0, 13, (2, 5), generator=torch.Generator().manual_seed(number))
        loss = nn.functional.cross_entropy(self.model(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def state(self) -> dict[str, Any]:
        """The nested state that the manager takes."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "trainer": {"samples": 6}}

    def put(self, state: dict[str, Any]) -> None:
        """Back into the module and the optimizer."""
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )

    def full(self) -> Full:
        """Every tensor whole, as nested lists, with the plain values of the optimizer."""
        state = self.state()
        return {"model": _whole(state["model"]), "optimizer": _whole(state["optimizer"])}


def save(kind: Kind, folder: Path, *, asynchronous: bool = True) -> tuple[Full, list[float]]:
    """Train three steps, save, train on; the state as it was at the save and the losses after it."""
    training = Training(kind, seed=1)
    for number in range(3):
        training.step(number)
    with open_manager(folder, asynchronous=asynchronous) as manager:
        full = training.full()
        manager.save(3, 6, 30, training.state())
        losses = [training.step(number) for number in range(3, 6)]  # while the save is in flight
    return full, losses


def load(kind: Kind, folder: Path) -> tuple[Full, dict[str, Any], list[float]]:
    """Load into a model of another seed; its state after it, the trainer's values, and the losses that follow."""
    training = Training(kind, seed=2)
    with open_manager(folder) as manager:
        checkpoint = manager.newest()
        assert checkpoint is not None
        state = training.state()
        manager.load(checkpoint, state)
        training.put(state)
        full = training.full()
        losses = [training.step(number) for number in range(3, 6)]
    return full, state["trainer"], losses


def newest_step(folder: Path) -> int | None:
    """What each rank is told to resume from."""
    with open_manager(folder) as manager:
        checkpoint = manager.newest()
        return checkpoint.step if checkpoint else None


def save_with_a_broken_rank(folder: Path, rank: int, operation: str, *, asynchronous: bool) -> str:
    """One rank's disk fails; the error that this rank sees."""
    broken = dist.get_rank() == rank
    disk = FailingDisk(operation, errno.EIO) if broken else Disk()
    manager = open_manager(folder, asynchronous=asynchronous, disk=disk)
    try:
        manager.save(2, 2, 2, spread_state(2))
        manager.finish()
    except Exception as error:  # noqa: BLE001 - the test reads it
        return f"{type(error).__name__}: {error}"
    return "saved"


def save_with_a_rank_that_cannot_copy(folder: Path, rank: int) -> str:
    """One rank fails before the background save starts; the error that this rank sees."""
    manager = open_manager(folder)
    state = spread_state(2)
    if dist.get_rank() == rank:
        state["trainer"] = {"loss": object()}
    try:
        manager.save(2, 2, 2, state)
        manager.finish()
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return "saved"


def save_with_a_silent_rank(folder: Path, rank: int, released: Path) -> str:
    """One rank never comes to the save; the others' error. It goes on when another rank has given up."""
    manager = open_manager(folder, asynchronous=False, timeout=timedelta(seconds=2))
    if dist.get_rank() == rank:
        while not released.exists():
            time.sleep(0.05)
        return "silent"
    try:
        manager.save(2, 2, 2, spread_state(2))
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    finally:
        released.touch()
    return "saved"


def save_with_a_dying_rank(folder: Path, rank: int) -> str:
    """One rank dies in the middle of its write; the others' error."""

    class Dying(Disk):
        def write(self, descriptor: int, data: memoryview) -> int:
            os._exit(9)

    manager = open_manager(folder, disk=Dying() if dist.get_rank() == rank else Disk())
    try:
        manager.save(2, 2, 2, spread_state(2))
        manager.finish()
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return "saved"


def save_good(folder: Path, step: int) -> None:
    """A checkpoint that several ranks wrote."""
    with open_manager(folder) as manager:
        manager.save(step, step, step, spread_state(step))


def spread_state(value: float) -> dict[str, Any]:
    """A state of many tensors, so that every rank gets some to write."""
    state = make_state(value)
    state["model"] |= {f"layer.{number}": torch.full((50, 50), float(value)) for number in range(8)}
    return state


def training_meanwhile(folder: Path) -> list[float]:
    """Collectives of the default group while saves run in the background: none may meet the other's."""
    sums = []
    with open_manager(folder) as manager:
        for step in range(1, 6):
            manager.save(step, step, step, spread_state(step))
            for _ in range(20):
                value = torch.tensor(float(step))
                dist.all_reduce(value)
                sums.append(value.item())
    return sums


def save_and_load_parts(folder: Path, leave_out: int) -> list[float] | str:
    """Each rank saves and loads tensors that no other has (a pipeline's stages), but for one that all have.

    Gives what was loaded, or the error where rank ``leave_out`` does not ask for its part.
    """
    rank = dist.get_rank()
    own = {f"stage.{rank}": torch.full((3,), rank + 5.0), "everywhere": torch.ones(1)}
    with open_manager(folder) as manager:
        manager.save(1, 1, 1, {"model": own, "trainer": {}}, wait=True)
        found = manager.newest()
        assert found is not None
        asked = [name for name in own if name == "everywhere" or rank != leave_out]
        wanted = {name: torch.zeros_like(own[name]) for name in asked}
        try:
            manager.load(found, {"model": wanted})
        except CheckpointFailed as error:
            return str(error)
    return [value for tensor in wanted.values() for value in tensor.tolist()]


def _whole(value: Any) -> Any:
    if isinstance(value, DTensor):
        return value.full_tensor().tolist()
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    return value


__all__ = ["CheckpointManager", "Kind", "Training", "load", "save"]
