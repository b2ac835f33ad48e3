"""Worker processes that read and tokenise, results in the order of the tasks whatever the processes do.

Takes tasks; gives their batches. The processes are started as a command of their own (``python -m
trainwright.data.worker``) and not through multiprocessing: no fork of a process with threads, no second run of the
caller's main module, and a worker whose parent is killed sees its pipe close and ends.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from trainwright.data.encode import EncodedBatch, Encoder, EncoderSettings
from trainwright.data.readers import UNREADABLE, ReadSettings, Span, reader
from trainwright.errors import InputError, Problem, TrainwrightError

_AHEAD = 4  # tasks in work or waiting to be consumed, for each worker
_WAITING_BATCHES = 8  # of one task; more of them and its worker pauses
_WAKE_SECONDS = 0.5
_COMMAND = ("-P", "-m", "trainwright.data.worker")  # -P: no module beside the user shadows ours


@dataclass(frozen=True, slots=True)
class Task:
    """Spans that one worker reads in one go; no file twice."""

    source: int
    format: str
    settings: ReadSettings
    spans: tuple[Span, ...]
    held_out: bool | None = None
    """Where all of it belongs; None: the content of each document decides."""


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """Follows the last batch of a task: how many lines each file had, for counting on."""

    lines: dict[int, int]


Result: TypeAlias = EncodedBatch | TaskEnd


def run_task(encoder: Encoder, task: Task) -> Iterator[Result]:
    """Read and tokenise one task in this process."""
    chosen = reader(task.format)
    lines: dict[int, int] = {}

    def rows() -> Iterator[Any]:
        for span in task.spans:
            try:
                lines[span.file] = yield from chosen.rows(span, task.settings)
            except UNREADABLE as error:  # what its head promised does not follow
                what = f"is cut or damaged ({error}), and cannot be read to its end"
                problem = Problem(str(span.path), what=what, instead="write it again, or leave it out of the data")
                raise InputError([problem]) from error

    yield from encoder.encode(rows())
    yield TaskEnd(lines)


def run_tasks(
    settings: EncoderSettings, tasks: list[Task], workers: int, wanted: Callable[[Task], bool]
) -> Generator[tuple[Task, Result], None, None]:
    """Results of all tasks in order. One worker means this process.

    ``wanted`` is asked, from any thread, just before a task is started: one that is no longer wanted gives nothing
    but its end.
    """
    if workers <= 1 or len(tasks) <= 1:
        encoder = Encoder(settings)
        for task in tasks:
            for result in run_task(encoder, task) if wanted(task) else (TaskEnd({}),):
                yield task, result
        return
    pool = _Pool(settings, tasks, min(workers, len(tasks)), wanted)
    try:
        yield from pool.results()
    finally:
        pool.close()


def available_cores() -> int:
    """Cores this process may use: its affinity, and the CPU limit of its container when there is one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


class _Failed:
    """Ends a task's results with what went wrong."""

    def __init__(self, error: BaseException):
        self.error = error


class _Pool:
    """One thread for each worker process: gives it tasks and collects its results."""

    def __init__(self, settings: EncoderSettings, tasks: list[Task], workers: int, wanted: Callable[[Task], bool]):
        self._settings, self._wanted = settings, wanted
        self._tasks = tasks
        self._results: dict[int, queue.Queue[Result | _Failed]] = {}  # of the tasks in work: there may be millions
        self._next = iter(range(len(tasks)))
        self._lock = threading.Lock()
        self._room = threading.Semaphore(_AHEAD * workers)
        self._stop = threading.Event()
        self._processes = [_start() for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._serve, args=(process,), daemon=True) for process in self._processes
        ]
        for thread in self._threads:
            thread.start()

    def results(self) -> Iterator[tuple[Task, Result]]:
        """Everything in order of the tasks."""
        for number, task in enumerate(self._tasks):
            waiting = self._queue(number)
            while True:
                result = waiting.get()
                if isinstance(result, _Failed):
                    raise result.error
                yield task, result
                if isinstance(result, TaskEnd):
                    break
            with self._lock:
                del self._results[number]
            self._room.release()

    def close(self) -> None:
        """End the processes, finished or not."""
        self._stop.set()
        for process in self._processes:
            process.kill()
        self._room.release(len(self._threads))
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what it had not read is lost with it
                        pipe.close()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        number: int | None = None
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            _send(process.stdin, self._settings)
            while True:
                self._room.acquire()
                with self._lock:
                    number = None if self._stop.is_set() else next(self._next, None)
                if number is None:
                    return
                if self._wanted(self._tasks[number]):
                    _send(process.stdin, self._tasks[number])
                    self._collect(process.stdout, number)
                else:
                    self._put(number, TaskEnd({}))
        except (OSError, EOFError, pickle.PickleError):
            code = process.wait()
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            way_out = "if memory ran out, set data.workers to a smaller number"
            self._fail(number, TrainwrightError(f"a tokenising process {how}", way_out))
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits for the result
            self._fail(number, error)

    def _collect(self, pipe: IO[bytes], number: int) -> None:
        while True:
            result = pickle.load(pipe)
            self._put(number, _Failed(result) if isinstance(result, BaseException) else result)
            if not isinstance(result, EncodedBatch):
                return

    def _queue(self, number: int) -> queue.Queue[Result | _Failed]:
        with self._lock:
            return self._results.setdefault(number, queue.Queue(_WAITING_BATCHES))

    def _put(self, number: int, result: Result | _Failed) -> None:
        while not self._stop.is_set():
            try:
                self._queue(number).put(result, timeout=_WAKE_SECONDS)
                return
            except queue.Full:
                continue

    def _fail(self, number: int | None, error: BaseException) -> None:
        """End a task with an error. Without a task in hand (the process died at once) the next one says so."""
        with self._lock:
            failed = next(self._next, None) if number is None else number
        if failed is not None:
            self._put(failed, _Failed(error))


def _start() -> subprocess.Popen[bytes]:
    one_thread = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *_COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **one_thread, "OPENBLAS_NUM_THREADS": "1"},
    )


def _send(pipe: IO[bytes], value: object) -> None:
    pickle.dump(value, pipe, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.flush()
