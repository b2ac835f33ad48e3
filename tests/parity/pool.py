"""A few gloo processes that run many cases: a process start costs seconds, a case milliseconds."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import tempfile
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class CaseFailed(Exception):
    """A case raised on some rank; the text is that rank's traceback."""


class Pool:
    """``size`` ranks. ``run`` calls one function of one module on every rank and gives their results in order."""

    def __init__(self, size: int):
        self.size = size
        self._store = Path(tempfile.mkdtemp()) / "store"
        # Imported once and forked: torch and transformers take longer to import than all cases to run.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["parity.preload"])
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, rank, size, str(self._store)), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, function: str, *arguments: Any, mutant: str | None = None) -> list[Any]:
        """``function`` is ``module:name``. With ``mutant`` that bug is planted for this call alone."""
        for pipe in self._pipes:
            pipe.send((function, arguments, mutant))
        answers = [pipe.recv() for pipe in self._pipes]
        failed = [text for ok, text in answers if not ok]
        if failed:
            raise CaseFailed(failed[0])
        return [value for _, value in answers]

    def close(self) -> None:
        """Let the processes end."""
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(20)
            if process.is_alive():
                process.kill()


def _serve(pipe: Connection, rank: int, size: int, store: str) -> None:
    os.environ.update(
        OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size)
    )
    import torch
    import torch.distributed as dist

    from parity.mutants import planted

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    while (task := pipe.recv()) is not None:
        function, arguments, mutant = task
        module, _, name = function.partition(":")
        try:
            with planted(mutant):
                pipe.send((True, getattr(importlib.import_module(module), name)(*arguments)))
        except Exception:  # noqa: BLE001 - told to the test
            pipe.send((False, traceback.format_exc()))
    dist.destroy_process_group()
