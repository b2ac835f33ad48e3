"""Metrics of the run: one line of metrics.jsonl for each logged step and each evaluation, and one line for people.

Takes numbers that were read from the device once for each line; times phases by the host's clock.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trainwright.runs import jsonl
from trainwright.training.whereabouts import Whereabouts

PHASES = ("data", "compute", "optimizer", "checkpoint", "evaluate")


class Sink(Protocol):
    """Anywhere else metrics go."""

    def write(self, record: dict[str, Any]) -> None:
        """Take one record of metrics.jsonl."""

    def close(self) -> None:
        """Flush and let go."""


class Clock:
    """Seconds by phase since the last line; what is in no phase is the trainer's own overhead.

    ``place``: where the launcher reads which phase this rank is in.
    """

    def __init__(self, place: Whereabouts | None = None) -> None:
        self.place = place or Whereabouts()
        self._started = time.perf_counter()
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what is inside."""
        self.place.at(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def lap(self) -> tuple[float, dict[str, float]]:
        """Seconds since the last lap, and those of each phase."""
        now = time.perf_counter()
        total, phases = now - self._started, self.seconds
        self._started, self.seconds = now, dict.fromkeys(PHASES, 0.0)
        return total, phases


@dataclass
class Metrics:
    """Writes lines on rank 0; on other ranks nothing is written.

    ``flops_share`` is MFU ÷ (tokens/s) as the plan knows it for this model on this machine; None where it does not.
    """

    path: Path | None
    steps: int
    flops_share: float | None = None
    sinks: Sequence[Sink] = ()
    _tokens_before: int = 0
    _step_before: int = 0

    def start_at(self, step: int, tokens: int) -> None:
        """Count steps and tokens of the first line from here."""
        self._step_before, self._tokens_before = step, tokens

    def step(
        self,
        *,
        step: int,
        samples: int,
        tokens: int,
        loss: float,
        lr: float,
        grad_norm: float,
        memory_bytes: int,
        skipped: int,
        seconds: float,
        phases: dict[str, float],
        experts: dict[str, Any] | None = None,
    ) -> None:
        """One logged step. ``tokens`` are all since the start of the run; rates leave out saving and evaluating.

        ``experts`` is what ``routing.Balance.report`` says, for a mixture of experts.
        """
        busy = seconds - phases["checkpoint"] - phases["evaluate"]
        rate = (tokens - self._tokens_before) / busy if busy > 0 else 0.0
        left = (self.steps - step) * busy / max(1, step - self._step_before)
        self.start_at(step, tokens)
        mfu = None if self.flops_share is None else rate * self.flops_share
        self._write(
            {
                "v": 1,
                "t": time.time(),
                "kind": "step",
                "step": step,
                "samples": samples,
                "tokens": tokens,
                "loss": _finite(loss),
                "lr": lr,
                "grad_norm": _finite(grad_norm),
                "tokens_per_s": round(rate, 3),
                "mfu": mfu,
                "memory_bytes": memory_bytes,
                "seconds": round(seconds, 6),
                "phases": {name: round(value, 6) for name, value in phases.items()},
                "skipped": skipped,
                **({"experts": experts} if experts else {}),
            }
        )
        if self.path is not None:
            print(  # noqa: T201 - rank 0's log is where a person follows
                f"step {step}/{self.steps}  loss {loss:.4f}  lr {lr:.3g}  grad {grad_norm:.3g}  "
                f"{rate:,.0f} tokens/s  "
                + (f"MFU {mfu:.1%}  " if mfu is not None else "")
                + f"{memory_bytes / 2**30:.2f} GiB  {_span(left)} left",
                flush=True,
            )

    def evaluation(self, *, step: int, samples: int, tokens: int, result: dict[str, Any]) -> None:
        """One held-out evaluation; ``result`` has the names of ``HeldOut``."""
        record = {"v": 1, "t": time.time(), "kind": "eval", "step": step, "samples": samples, "tokens": tokens}
        self._write({**record, **{name: _finite(value) for name, value in result.items()}})
        if self.path is not None:
            print(f"step {step}/{self.steps}  eval loss {result['eval_loss']:.4f}", flush=True)  # noqa: T201

    def close(self) -> None:
        """Flush the sinks."""
        for sink in self.sinks:
            sink.close()

    def _write(self, record: dict[str, Any]) -> None:
        if self.path is None:
            return
        jsonl.append(self.path, record)
        for sink in self.sinks:
            sink.write(record)


def _finite(value: Any) -> Any:
    """JSON has no NaN: what is not finite is written as null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"
