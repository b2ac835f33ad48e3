"""CheckpointManager: what a trainer calls to save, find and load its state, the same calls on every rank.

Takes nested state dicts and counters, gives checkpoints that verify; decides when to delete. Every public method is
collective: all ranks call it, in the same order, and all see the same result or the same error.
"""

from __future__ import annotations

import contextlib
import json
import logging
import platform
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from trainwright.checkpoints import dcp
from trainwright.checkpoints.disk import Disk, write_file
from trainwright.checkpoints.failures import CheckpointDamaged, CheckpointFailed, is_full, room_left
from trainwright.checkpoints.format import Checkpoint, Damage, FileRecord, Manifest, open_checkpoint, step_of
from trainwright.checkpoints.resume import candidates, warn
from trainwright.checkpoints.retention import surplus
from trainwright.checkpoints.store import LocalStore
from trainwright.checkpoints.verify import Progress, verify_files
from trainwright.models.layout import Layout
from trainwright.runs.events import EventLog

TRAINER = "trainer.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Work:
    """One save, ready to be written: a state that nothing else changes, or the error of making it."""

    manifest: Manifest
    tensors: dcp.State
    copies: dict[int, Any]
    trainer: bytes
    error: Exception | None = None


class CheckpointManager:
    """Saves to and loads from one folder that all ranks share.

    ``keep`` and ``keep_every`` say what stays (see ``retention.surplus``). With ``asynchronous`` a save returns once
    the state is copied to host memory and is written by a background thread; one save is in flight at a time. What
    fails there is raised by the next call of any method. ``timeout`` bounds how long a rank waits for another one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        spec_sha256: str,
        layout: Layout | None,
        attempt: int,
        keep: int = 2,
        keep_every: int | None = None,
        asynchronous: bool = True,
        events: EventLog | None = None,
        timeout: timedelta = timedelta(minutes=30),
        threads: int | None = None,
        disk: Disk | None = None,
    ):
        self.folder = folder
        self._spec_sha256, self._layout, self._attempt = spec_sha256, layout, attempt
        self._keep, self._keep_every, self._asynchronous = keep, keep_every, asynchronous
        self._events, self._threads, self._disk = events, threads, disk or Disk()
        self._ranks = dcp.Ranks(timeout)
        self._store = LocalStore(folder, self._disk)
        self._copy = dcp.PrivateCopy()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._verified: set[str] = set()  # names of folders whose every byte was read back in this process
        self._damaged: dict[int, list[Damage]] = {}
        self._saved: tuple[int, int, int] | None = None  # step, samples and tokens of the state that is on the disk
        self._ranks.from_first("opening the checkpoint folder", self._store.open)

    def save(
        self, step: int, samples: int, tokens: int, state: dcp.State, *, wait: bool = False, best: int | None = None
    ) -> float:
        """Save ``state`` as the checkpoint of ``step``; gives the seconds that the caller was blocked.

        ``state`` is ``{"model": {name: tensor}, "optimizer": {…}, "trainer": {plain JSON values}}``; tensors may be
        DTensors. ``wait`` commits before returning even where saves are asynchronous. ``best`` is the step of the
        best model so far, whose checkpoint stays. What was just saved or loaded is not saved again. CheckpointFailed
        when this save, or the one before it in the background, failed.
        """
        start = time.perf_counter()
        self.settle()
        if (step, samples, tokens) == self._saved:
            return time.perf_counter() - start
        background = self._asynchronous and not wait
        work = self._prepare(step, samples, tokens, state, best=best, private=background)
        if background:
            self._pending = self._worker.submit(self._save_and_retain, work)
        else:
            checkpoint = self._write(work)
            self._pending = self._worker.submit(self._retain, checkpoint, best)
        return time.perf_counter() - start

    def finish(self) -> None:
        """Wait for the save in flight and let go of the folder; the manager is not to be used after it."""
        try:
            self.settle()
        finally:
            self._worker.shutdown()
            self._store.close()
            self._ranks.close()

    def newest(self, progress: Progress | None = None) -> Checkpoint | None:
        """The newest checkpoint whose every byte is as it was saved; None when there is none.

        Damaged ones on the way are logged and written as ``verified`` events with ``ok: false``. The ranks share the
        reading; each file is read once.
        """
        self.settle()
        found = self._ranks.from_first("looking for checkpoints", lambda: list(candidates(self.folder, self._report)))
        for checkpoint in found:
            damage = self._verify(checkpoint, progress)
            if not damage:
                self._event("verified", step=checkpoint.step, ok=True)
                return checkpoint
            if self._ranks.rank == 0:
                self._report(checkpoint.folder, damage)
        return None

    def load(self, checkpoint: Checkpoint, state: dcp.State) -> None:
        """Load a checkpoint into the tensors and plain values of ``state``, in place, whatever layout saved it.

        Sections that ``state`` lacks are not read. CheckpointDamaged when its bytes are not those that were saved,
        CheckpointFailed when names or shapes do not fit, both before anything in ``state`` is changed.
        """
        self.settle()
        if checkpoint.folder.name not in self._verified and (damage := self._verify(checkpoint, None)):
            raise CheckpointDamaged(checkpoint.folder, damage)
        tensors = {name: section for name, section in state.items() if name != "trainer"}
        dcp.read(checkpoint, tensors, self._ranks)
        state.update(tensors)
        if "trainer" in state:
            text = self._ranks.from_first("reading the trainer's state", (checkpoint.folder / TRAINER).read_bytes)
            state["trainer"] = json.loads(text)
        if checkpoint.folder.parent == self.folder and {"model", "optimizer", "trainer"} <= state.keys():
            self._saved = _position(checkpoint.manifest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
            return
        with contextlib.suppress(CheckpointFailed):  # the error on its way out is the one to tell
            self.finish()

    def settle(self) -> None:
        """Wait for what runs in the background; raise what went wrong there, once."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _prepare(
        self, step: int, samples: int, tokens: int, state: dcp.State, *, best: int | None, private: bool
    ) -> _Work:
        """Take what a save needs from the live state. An error is carried along, for all ranks to hear of."""
        manifest = Manifest(
            step=step,
            samples=samples,
            tokens=tokens,
            attempt=self._attempt,
            layout=self._layout,
            framework="dcp",
            versions={
                "trainwright": version("trainwright"),
                "torch": dcp.torch_version(),
                "python": platform.python_version(),
            },
            spec_sha256=self._spec_sha256,
            best=best,
        )
        try:
            tensors = {name: section for name, section in state.items() if name != "trainer"}
            trainer = (json.dumps(state.get("trainer", {}), allow_nan=False) + "\n").encode()
            copies: dict[int, Any] = {}
            if private:
                tensors, copies = self._copy.take(tensors)
            return _Work(manifest, tensors, copies, trainer)
        except Exception as error:  # noqa: BLE001 - raised on every rank by _write
            return _Work(manifest, {}, {}, b"", error)

    def _save_and_retain(self, work: _Work) -> None:
        self._retain(self._write(work), work.manifest.best)

    def _write(self, work: _Work) -> Checkpoint:
        """Write, prove and commit one checkpoint. On failure nothing of it stays and every rank raises the same."""
        start, step = time.perf_counter(), work.manifest.step
        what = f"saving step {step} to {self.folder}"
        temporary = ""
        try:
            self._ranks.together(what, lambda: _raise(work.error))
            temporary = self._ranks.from_first(what, lambda: self._store.begin(step))
            records = dcp.write(self.folder / temporary, work.tensors, work.copies, self._ranks, self._disk, what)
            written = self._ranks.together(what, lambda: records + self._write_trainer(temporary, work.trainer))
            manifest = replace(work.manifest, files=tuple(record for part in written for record in part))
            checkpoint = self._ranks.from_first(what, lambda: self._commit(temporary, manifest))
        except CheckpointFailed as error:
            if temporary and self._ranks.rank == 0:
                self._store.drop(temporary)
            self._event("failed", **{"class": "checkpoint", "step": step, "exception": str(error)})
            raise self._explained(error) from error
        self._saved = _position(checkpoint.manifest)
        self._verified.discard(checkpoint.folder.name)
        self._damaged.pop(step, None)
        self._event("saved", step=step, bytes=checkpoint.manifest.size, seconds=round(time.perf_counter() - start, 3))
        return checkpoint

    def _commit(self, temporary: str, manifest: Manifest) -> Checkpoint:
        return open_checkpoint(self._store.commit(temporary, manifest))

    def _write_trainer(self, temporary: str, text: bytes) -> list[FileRecord]:
        if self._ranks.rank != 0:
            return []
        return [write_file(self._disk, self.folder / temporary / TRAINER, text)]

    def _retain(self, checkpoint: Checkpoint, best: int | None) -> None:
        """Delete what may go, after reading ``checkpoint`` back. Damage and undeletable folders are reported."""
        doomed = self._ranks.from_first("choosing what to keep", lambda: self._surplus(checkpoint.step, best))
        if not doomed:
            return
        if damage := self._verify(checkpoint, None):
            if self._ranks.rank == 0:
                self._report(checkpoint.folder, damage)
            return
        self._event("verified", step=checkpoint.step, ok=True)
        if self._ranks.rank == 0:
            self._delete(doomed)

    def _surplus(self, verified: int, best: int | None) -> list[int]:
        if not self._store.owned():
            return []  # another writer lives: what is surplus to us may be its newest
        good, bad = self._store.look()
        known = set(self._damaged)
        return surplus(
            good - known,
            {*bad, *(good & known)},
            keep=self._keep,
            keep_every=self._keep_every,
            verified=verified,
            best=best,
        )

    def _delete(self, steps: list[int]) -> None:
        for step in steps:
            try:
                self._store.delete(step)
            except OSError as error:
                _log.warning("step %d could not be deleted from %s: %s", step, self.folder, error)

    def _verify(self, checkpoint: Checkpoint, progress: Progress | None) -> list[Damage]:
        """All damage, the same list on every rank. Files are dealt out by size so that ranks read equally much."""
        shares: list[list[FileRecord]] = [[] for _ in range(self._ranks.size)]
        for record in sorted(checkpoint.manifest.files, key=lambda record: -record.bytes):
            min(shares, key=lambda share: sum(other.bytes for other in share)).append(record)
        mine = shares[self._ranks.rank]
        answers = self._ranks.together(
            f"verifying {checkpoint.folder.name}",
            lambda: verify_files(checkpoint.folder, mine, threads=self._threads, progress=progress),
        )
        damage = [item for answer in answers for item in answer]
        if damage:
            self._damaged[checkpoint.step] = damage
        else:
            self._verified.add(checkpoint.folder.name)
        return damage

    def _report(self, folder: Path, damage: list[Damage]) -> None:
        warn(folder, damage)
        rows = [{"path": item.path, "what": item.what} for item in damage]
        self._event("verified", step=step_of(folder.name), ok=False, damage=rows)

    def _event(self, kind: Any, **fields: Any) -> None:  # Any: EventLog.write checks the kind
        if self._events and self._ranks.rank == 0:
            self._events.write(kind, **fields)

    def _explained(self, error: CheckpointFailed) -> CheckpointFailed:
        """The same failure with the way out that its causes suggest."""
        if error.way_out or not any(is_full(cause) for cause in error.causes):
            return error
        way_out = (
            f"{room_left(self.folder)}; free some, lower checkpoint.keep, raise a file size limit (ulimit -f), or "
            f"point storage at a larger disk. Checkpoints saved before are untouched"
        )
        return CheckpointFailed(error.message, way_out, error.causes)


def _position(manifest: Manifest) -> tuple[int, int, int]:
    return manifest.step, manifest.samples, manifest.tokens


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error
