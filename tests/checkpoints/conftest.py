"""Fixtures of the checkpoint room: managers of one process, small states, and a pool of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.checkpoints.format import Checkpoint
from trainwright.checkpoints.manager import CheckpointManager

from .workers import Pool

State = dict[str, Any]


def make_state(value: float) -> State:
    """A state whose every number tells which save it is from."""
    weight = torch.arange(6000, dtype=torch.float32) + value
    moments = {"step": torch.tensor(float(value)), "exp_avg": weight * 2, "exp_avg_sq": weight * 3}
    groups = [{"lr": 0.001 * value, "betas": (0.9, 0.99), "params": ["w"]}]
    return {
        "model": {"w": weight, "scalar": torch.tensor(value, dtype=torch.float64)},
        "optimizer": {"state": {"w": moments}, "param_groups": groups},
        "trainer": {"samples": int(value)},
    }


def assert_same_state(found: State, expected: State) -> None:
    """Every tensor bit for bit, every plain value; and that there was something to compare."""
    assert found["optimizer"]["state"], "an empty optimizer state proves nothing"
    torch.testing.assert_close(found["model"], expected["model"], rtol=0, atol=0)
    torch.testing.assert_close(found["optimizer"]["state"], expected["optimizer"]["state"], rtol=0, atol=0)
    assert found["optimizer"]["param_groups"] == expected["optimizer"]["param_groups"]
    assert found["trainer"] == expected["trainer"]


def open_manager(folder: Path, **options: Any) -> CheckpointManager:
    """A manager with short names for what a test does not care about."""
    return CheckpointManager(folder, **{"spec_sha256": "ab" * 32, "layout": None, "attempt": 1, **options})


def save_steps(folder: Path, *steps: int, **options: Any) -> None:
    """Save one checkpoint after the other, each with its step as value."""
    with open_manager(folder, **{"keep": 100, **options}) as manager:
        for step in steps:
            manager.save(step, step, step, make_state(step))


def load_newest(folder: Path) -> tuple[Checkpoint, State]:
    """The newest good checkpoint and the state that loads from it."""
    with open_manager(folder) as manager:
        checkpoint = manager.newest()
        assert checkpoint is not None, "no good checkpoint is left"
        state = make_state(0)
        manager.load(checkpoint, state)
    return checkpoint, state


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with steps 1 and 2, to be copied."""
    folder = tmp_path_factory.mktemp("template") / "checkpoints"
    save_steps(folder, 1, 2)
    return folder


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Four processes that serve as ranks, kept over all tests because starting one costs seconds."""
    with Pool(4) as workers:
        yield workers


Run = Callable[..., list[Any]]
