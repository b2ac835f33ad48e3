"""A few gloo processes that run many cases: a process start costs seconds, a case milliseconds."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import tempfile
import traceback
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class CaseFailed(Exception):
    """A case raised on some rank; the text is that rank's traceback."""


class Pool:
    """``size`` ranks. ``run`` calls one function of one module on every rank and gives their results in order."""

    def __init__(self, size: int):
        self.size = size
        self._context = multiprocessing.get_context("forkserver")
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []

    def _start(self) -> None:
        _prepare()
        store = Path(tempfile.mkdtemp()) / "store"
        for rank in range(self.size):
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_serve, args=(theirs, rank, self.size, str(store)), daemon=True)
            process.start()
            theirs.close()  # else nobody would notice that the rank has died
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, function: str, *arguments: Any, mutant: str | None = None) -> list[Any]:
        """``function`` is ``module:name``. With ``mutant`` that bug is planted for this call alone."""
        if not self._processes:
            self._start()
        for pipe in self._pipes:
            pipe.send((function, arguments, mutant))
        try:
            answers = [pipe.recv() for pipe in self._pipes]
        except EOFError:
            codes = [process.exitcode for process in self._processes]
            self.close()
            raise CaseFailed(f"a rank has died; exit codes: {codes}") from None
        failed = [text for ok, text in answers if not ok]
        if not failed:
            return [value for _, value in answers]
        if len(failed) < self.size or "AnswerNo" not in failed[0]:
            self.close()  # ranks may have left each other in the middle of something: the next case gets new ones
        raise CaseFailed(failed[0])

    def close(self) -> None:
        """Let the processes end."""
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self._processes:
            process.join(20)
            if process.is_alive():
                process.kill()
        self._pipes, self._processes = [], []


def _prepare() -> None:
    """Start the process that ranks are forked from: torch and transformers take longer to import than many cases to
    run. It must be told where this folder is; a module that it does not find it does without, silently.
    """
    folder, before = str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, before]))
    try:
        multiprocessing.set_forkserver_preload(["parity.preload"])
        forkserver.ensure_running()
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _serve(pipe: Connection, rank: int, size: int, store: str) -> None:
    os.environ.update(
        OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size)
    )
    import torch
    import torch.distributed as dist

    from parity.gloo import share_one_device
    from parity.mutants import planted

    torch.set_num_threads(1)
    share_one_device()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    while (task := pipe.recv()) is not None:
        function, arguments, mutant = task
        module, _, name = function.partition(":")
        try:
            with planted(mutant):
                answer = (True, getattr(importlib.import_module(module), name)(*arguments))
        except Exception:  # noqa: BLE001 - told to the test
            answer = (False, traceback.format_exc())
        pipe.send(answer)
    os._exit(0)  # leaving groups one by one would wait for ranks that may have failed
