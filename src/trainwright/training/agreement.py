"""What all ranks must agree on before a step: how many targets its batch has, and whether to stop or save.

One all-reduce of a few integers on the CPU backend, started after a step's backward passes are under way and read
before the next step. The device never waits for it, and its result is a plain number: the loss's weight needs none
on the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from trainwright.training.batches import StepBatch


@dataclass(frozen=True)
class Agreed:
    """Sums over data ranks for one step, and what any rank asked for."""

    valid_tokens: int
    tokens: int
    stop: bool
    save: bool


class Agreement:
    """``propose`` starts it, ``result`` waits for it; the two alternate, in the same order on every rank."""

    def __init__(self, counts: bool):
        self._counts = counts
        self._alone = dist.get_world_size() == 1
        self._work: dist.Work | None = None
        self._sums = torch.zeros(4, dtype=torch.int64)
        self._own = [0, 0, 0, 0]

    def propose(self, batch: StepBatch | None, *, stop: bool, save: bool) -> None:
        """Say what this rank brings to the next step; ``batch`` is None when the run is over."""
        counted = batch if self._counts else None
        self._own = [counted.valid_tokens, counted.tokens] if counted else [0, 0]
        self._own += [int(stop), int(save)]
        if not self._alone:
            self._sums = torch.tensor(self._own)
            self._work = dist.all_reduce(self._sums, async_op=True)

    def result(self) -> Agreed:
        """What was agreed on; the same on every rank."""
        if self._work is not None:
            self._work.wait()
            self._work = None
        valid, tokens, stop, save = self._own if self._alone else self._sums.tolist()
        return Agreed(valid, tokens, stop > 0, save > 0)


def asked_to_stop(stop: object) -> bool:
    """True on every rank when ``stop`` is true on any. Collective."""
    asked = torch.tensor([int(bool(stop))])
    if dist.get_world_size() > 1:
        dist.all_reduce(asked)
    return bool(asked.item())
