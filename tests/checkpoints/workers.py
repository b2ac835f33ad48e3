"""Processes that serve as ranks: started once, they run function after function, each in a fresh gloo group."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

#: Imported once by the server that the ranks are forked from: each rank alone would spend seconds on them.
_PRELOAD = ["torch.distributed.fsdp", "torch.distributed.checkpoint.state_dict", "torch._dynamo"]


class RankDied(Exception):
    """A worker's process ended while it ran a function."""


class Pool:
    """``run`` calls a function on the first ``world`` ranks, under an initialised process group of that size."""

    def __init__(self, size: int):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOAD)
        self._folder = tempfile.TemporaryDirectory()
        self._count = 0
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(20)
            if process.is_alive():
                process.terminate()
        self._folder.cleanup()

    def run(self, world: int, function: Callable[..., Any], *arguments: Any, **named: Any) -> list[Any]:
        """Results by rank. An exception is a result too: its instance; a dead process gives RankDied."""
        self._count += 1
        meeting = Path(self._folder.name) / str(self._count)
        for rank, pipe in enumerate(self._pipes[:world]):
            pipe.send((rank, world, str(meeting), function, arguments, named))
        results = []
        for pipe in self._pipes[:world]:
            try:
                results.append(pipe.recv())
            except EOFError:
                results.append(RankDied())
        return results

    def values(self, world: int, function: Callable[..., Any], *arguments: Any, **named: Any) -> list[Any]:
        """Like ``run``, but an exception on any rank is raised here."""
        results = self.run(world, function, *arguments, **named)
        for rank, result in enumerate(results):
            if isinstance(result, Exception):
                notes = "\n".join(getattr(result, "__notes__", ()))
                raise AssertionError(f"rank {rank}: {result}\n{notes}") from result
        return results


def _serve(pipe: Connection) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    while True:
        try:
            rank, world, meeting, function, arguments, named = pipe.recv()
        except EOFError:
            return
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
        try:
            result = function(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - handed to the test
            error.add_note(traceback.format_exc())
            error.__cause__ = error.__context__ = None
            result = error
        dist.destroy_process_group()
        pipe.send(result)
