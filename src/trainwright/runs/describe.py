"""A run's state in words: the lines of ``status`` and the row of ``ls``. Pure: values in, text out."""

from __future__ import annotations

import math
from typing import Any

from trainwright import plain_json
from trainwright.runs.state import JobState
from trainwright.runs.steps import Step

COLUMNS = ("RUN", "TARGET", "PHASE", "ATTEMPT", "STEP", "LOSS", "SINCE", "WHY")


def describe(run: str, state: JobState, step: Step | None, saved: int | None, now: float) -> list[str]:
    """The first failing rank's first error on top, then what to do, then how far the run came."""
    attempt = f", attempt {state.attempt}" if state.attempt > 1 else ""
    since = f" since {age(state.since, now)}" if state.since is not None else ""
    stage = f" {state.stage}" if state.stage and not state.final else ""
    cost = f", ${state.cost:.2f} so far" if state.cost else ""
    lines = [f"{run}  {state.phase}{stage}{since}{attempt}{cost}"]
    if state.reason is not None:
        lines.append(f"  {state.reason.sentence}")
        lines += [f"  next: {state.reason.next_step}"] if state.reason.next_step else []
        lines += [f"  from: {state.reason.raw}"] if state.reason.raw else []
    if step is not None:
        loss = f", loss {step.loss:.4g}" if step.loss is not None else ""
        lines.append(f"  step {step.step}{loss}" + (f", saved at step {saved}" if saved is not None else ""))
    elif saved is not None:
        lines.append(f"  saved at step {saved}")
    return lines


def row(run: str, target: str, state: JobState, step: Step | None, now: float) -> tuple[str, ...]:
    """One cell for each of ``COLUMNS``."""
    loss = f"{step.loss:.4g}" if step is not None and step.loss is not None else "–"
    why = state.reason.sentence if state.reason is not None else ""
    number = str(step.step) if step is not None else "–"
    return run, target, state.phase, str(state.attempt or "–"), number, loss, age(state.since, now), why


def table(rows: list[tuple[str, ...]], width: int) -> str:
    """Rows under their heads, the last column cut so that a row stays one line of ``width`` characters."""
    cells = [COLUMNS, *rows]
    widths = [max(len(cell[i]) for cell in cells) for i in range(len(COLUMNS) - 1)]
    left = max(width - sum(widths) - 2 * len(widths), 10)
    lines = []
    for cell in cells:
        fixed = "  ".join(text.ljust(size) for text, size in zip(cell[:-1], widths, strict=True))
        why = cell[-1] if len(cell[-1]) <= left else cell[-1][: left - 1] + "…"
        lines.append(f"{fixed}  {why}".rstrip())
    return "\n".join(lines)


def age(since: float | None, now: float) -> str:
    """Time from then to now in its two largest units; ``0s`` when the clock was set back in between."""
    if since is None or not math.isfinite(since):
        return "–"
    seconds = int(max(0.0, now - since))
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    parts = [
        (name, seconds // size if name == "d" else seconds % (size * _ABOVE[name]) // size) for name, size in units
    ]
    first = next((i for i, (_, count) in enumerate(parts) if count), 3)
    return " ".join(f"{count}{name}" for name, count in parts[first : first + 2] if count or first == 3)


_ABOVE = {"h": 24, "m": 60, "s": 60}


def event_line(event: dict[str, Any], clock: str) -> str:
    """One event as a line; ``clock`` is its time as it is to be shown."""
    rank = event.get("rank")
    who = {"s": "supervisor", "f": "finish"}.get(str(rank), f"rank {rank}")
    head = {"v", "t", "run_id", "attempt", "rank", "kind"}
    details = " ".join(
        f"{name}={_plain(value)}" for name, value in event.items() if name not in head and value not in ("", None)
    )
    text = f"{clock}  {event.get('attempt')}  {who:<10}  {event.get('kind'):<10}  {details}".rstrip()
    return "".join(c if c.isprintable() else " " for c in text)


def _plain(value: Any) -> str:
    """A value as JSON has it; of what has a place, the place."""
    if isinstance(value, dict):
        return str(value["path"]) if "path" in value else plain_json.dumps(value)
    return plain_json.dumps(value) if isinstance(value, list | bool) else str(value)
