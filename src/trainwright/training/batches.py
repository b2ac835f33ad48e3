"""This rank's micro-batches, in the one global order of samples, made ahead of time by a thread.

Takes the order, the sequences and the objective of the data room; gives tensors on the device, step after step. Which
samples a step holds depends on its number alone, so any layout and any restart sees the same ones.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from trainwright.data.batch import IGNORED, PADDING, Batch
from trainwright.data.objectives import Objective
from trainwright.data.order import GlobalOrder
from trainwright.data.sequences import Sequences
from trainwright.training.duration import Horizon
from trainwright.training.mesh import DataRanks
from trainwright.training.zigzag import ALONE, ZigZag

#: Steps made ahead of the one being computed, and how few may be left before more are made. Batches are made in
#: bursts because every hand-over between two Python threads costs as much as a small batch.
AHEAD, LEFT = 8, 2

Positions = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class DeviceBatch:
    """One micro-batch as a model needs it; int64 on the device, [B, T] unless said otherwise."""

    input_ids: Tensor
    position_ids: Tensor
    document_ids: Tensor | None
    """[B, T of all ranks]. None when every row is one document without padding: causality alone is the mask then."""
    targets: Tensor
    """[N]: places in the flattened batch that have a target. Made on the host, where counting them is free."""
    labels: Tensor
    """[N]: their targets."""
    causal: bool
    boundaries: Tensor | None = None
    longest: int = 0
    token_type_ids: Tensor | None = None
    next_sentence_labels: Tensor | None = None


@dataclass(frozen=True)
class StepBatch:
    """What this rank computes in one step. ``rows`` is the number of samples over all ranks, other counts are this
    rank's; ``samples`` are sequence numbers by micro-batch.
    """

    step: int
    micro_batches: tuple[DeviceBatch, ...]
    rows: int
    valid_tokens: int
    tokens: int
    samples: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Slicing:
    """How a step's samples are dealt to data ranks and micro-batches."""

    data: DataRanks
    micro_batch_size: int

    def micro_batches(self, start: int, stop: int) -> list[range]:
        """Positions of this rank's micro-batches of the step that covers ``start`` to ``stop - 1``.

        Micro-batch k of rank r takes the block of number k · ranks + r, so a short last step needs fewer rounds. All
        ranks get equally many; those that are left over are empty.
        """
        size = self.micro_batch_size
        rounds = -(-(stop - start) // (size * self.data.size))
        first = [start + (number * self.data.size + self.data.rank) * size for number in range(rounds)]
        return [range(min(at, stop), min(at + size, stop)) for at in first]


class Batches:
    """Iterates over this rank's steps from ``first_step`` (0-based) to the run's end. Close it when done."""

    def __init__(
        self,
        sequences: Sequences,
        order: GlobalOrder,
        objective: Objective,
        slicing: Slicing,
        horizon: Horizon,
        to_device: Callable[[Batch], DeviceBatch],
        first_step: int = 0,
    ):
        self._sequences, self._order, self._objective = sequences, order, objective
        self._slicing, self._horizon, self._to_device = slicing, horizon, to_device
        self._first = first_step
        self._ready: deque[StepBatch | BaseException | None] = deque()
        self._arrived, self._wanted = threading.Condition(), threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._produce, name="batches", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[StepBatch]:
        while (item := self._next()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        """Stop making batches."""
        self._stop = True
        self._wanted.set()
        self._thread.join()

    def _next(self) -> StepBatch | BaseException | None:
        if len(self._ready) <= LEFT:
            self._wanted.set()
        if not self._ready:
            with self._arrived:
                self._arrived.wait_for(lambda: self._ready)
        return self._ready.popleft()

    def _produce(self) -> None:
        try:
            for step in range(self._first, self._horizon.steps):
                self._wanted.clear()  # before looking, so that no wish gets lost in between
                if len(self._ready) >= AHEAD and not self._stop:
                    self._wanted.wait()
                if self._stop:
                    return
                self._put(self.step(step))
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - raised where batches are read
            self._put(error)

    def _put(self, item: StepBatch | BaseException | None) -> None:
        with self._arrived:
            self._ready.append(item)
            self._arrived.notify()

    def step(self, step: int) -> StepBatch:
        """The micro-batches of one step; every rank has the same number of them."""
        start, stop = step_samples(self._horizon, step)
        parts = self._slicing.micro_batches(start, stop)
        made = [self._micro_batch(part) for part in parts]
        moved = tuple(self._to_device(batch) for batch, _ in made)
        return StepBatch(
            step,
            moved,
            stop - start,
            sum(batch.valid_tokens for batch, _ in made),
            sum(int(np.count_nonzero(batch.document_ids != PADDING)) for batch, _ in made),
            tuple(tuple(batch.samples.tolist()) if real else () for batch, real in made),
        )

    def _micro_batch(self, part: range) -> tuple[Batch, bool]:
        if not part:
            return self._empty(), False
        numbers = self._order.indices(part.start, part.stop)
        sequences = [self._sequences[int(number)] for number in numbers]
        return self._objective(sequences, np.arange(part.start, part.stop, dtype=np.int64)), True

    def _empty(self) -> Batch:
        """A batch without targets, for a rank that has no sample left: it must still take part in collectives."""
        batch = self._objective([self._sequences[0]])
        batch.labels[:] = IGNORED
        batch.document_ids[:] = PADDING
        if batch.next_sentence_labels is not None:
            batch.next_sentence_labels[:] = IGNORED
        return batch


def step_samples(horizon: Horizon, step: int) -> tuple[int, int]:
    """Positions in the global order that a step (0-based) covers, as (start, stop)."""
    return horizon.samples_before(step), horizon.samples_before(step + 1)


def device_mover(
    device: torch.device,
    causal: bool,
    flash: bool = False,
    shape: tuple[int, int] | None = None,
    context: ZigZag = ALONE,
    multiple: int = 1,
) -> Callable[[Batch], DeviceBatch]:
    """What turns the data room's numpy batch into tensors on ``device``. Everything dynamic is decided here, on the
    host: which positions have targets, whether a mask is needed, where documents end. ``shape``: pad every batch to
    so many rows and positions. ``context``: keep this rank's positions. ``multiple``: of what lengths must be.
    """

    def tensor(array: np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None) -> Tensor | None:
        if array is None:
            return None
        host = torch.from_numpy(np.ascontiguousarray(array))
        return host if device.type == "cpu" else host.pin_memory().to(device, non_blocking=True)

    def move(batch: Batch) -> DeviceBatch:
        rows, width = shape or batch.input_ids.shape
        batch = padded(batch, rows, round_up(width, math.lcm(multiple, context.multiple)))
        documents = batch.document_ids
        batch = batch if context.size == 1 else share_of(batch, context)
        flat = batch.labels.reshape(-1)
        (targets,) = np.nonzero(flat != IGNORED)
        ends, longest = _boundaries(batch) if flash else (None, 0)
        moved = [tensor(a) for a in (batch.input_ids, batch.position_ids, targets, flat[targets])]
        input_ids, position_ids, places, labels = moved
        assert input_ids is not None
        assert position_ids is not None
        assert places is not None
        assert labels is not None
        boundaries = tensor(ends)
        return DeviceBatch(
            input_ids,
            position_ids,
            None if _is_whole(documents) else tensor(documents),
            places,
            labels,
            causal,
            None if boundaries is None else boundaries.to(torch.int32),
            longest,
            tensor(batch.token_type_ids),
            tensor(batch.next_sentence_labels),
        )

    return move


def padded(batch: Batch, rows: int, width: int) -> Batch:
    """The same batch in a larger rectangle; what is added is padding, without targets."""
    grown = {"input_ids": 0, "labels": IGNORED, "position_ids": 0, "document_ids": PADDING, "token_type_ids": 0}
    grown |= {"next_sentence_labels": IGNORED}
    if (rows, width) == batch.input_ids.shape:
        return batch
    missing = ((0, rows - batch.input_ids.shape[0]), (0, width - batch.input_ids.shape[1]))
    values = {name: getattr(batch, name) for name in grown}
    return replace(
        batch,
        **{
            name: np.pad(array, missing[: array.ndim], constant_values=grown[name])
            for name, array in values.items()
            if array is not None
        },
    )


def round_up(length: int, multiple: int) -> int:
    """The next multiple."""
    return -(-length // multiple) * multiple


def share_of(batch: Batch, context: ZigZag) -> Batch:
    """The positions that one rank of a context group computes. Positions keep their numbers, targets their places."""
    places = context.places(batch.input_ids.shape[1])
    names = ("input_ids", "labels", "position_ids", "document_ids", "token_type_ids")
    values = {name: getattr(batch, name) for name in names}
    return replace(batch, **{name: array[:, places] for name, array in values.items() if array is not None})


def _is_whole(ids: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> bool:
    first = ids[:, :1]
    return bool((ids == first).all() and (first != PADDING).all())


def _boundaries(batch: Batch) -> tuple[Positions, int]:
    """Ends of documents in the flattened batch, from 0, and the longest document. Padding is a document too."""
    ids = batch.document_ids
    starts = np.ones(ids.shape, bool)
    starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
    ends: Positions = np.append(np.flatnonzero(starts.reshape(-1)), ids.size).astype(np.int64)
    return ends, int(np.diff(ends).max())
