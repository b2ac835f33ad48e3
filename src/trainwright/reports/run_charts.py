"""The curves of one run: what is drawn, from which fields, with which words beside it.

Takes a RunRecord, gives figures; a field that was never measured has no figure.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.reports import figures
from trainwright.reports.figures import Chart, Line
from trainwright.reports.markup import figure
from trainwright.reports.record import RunRecord, stages
from trainwright.reports.words import amount, bytes_, duration, number

_TOLD = ("saved", "evaluated", "restarted", "failed", "signal")


def charts(run: RunRecord) -> str:
    """All figures of a run as one grid, the timeline last."""
    drawn = [*_curves(run), *_phases(run), *_timeline(run)]
    return f'<div class="charts">\n{"".join(drawn)}\n</div>' if drawn else ""


def _curves(run: RunRecord) -> Iterator[str]:
    x = [float(row["step"]) for row in run.steps]
    loss = Line("training", x, run.numbers("loss"), colour=0)
    evals = Line(
        "held-out", [float(e["step"]) for e in run.evals], [e.get("eval_loss") for e in run.evals], "marked", 1
    )
    lines = tuple(line for line in (loss, evals) if any(value is not None for value in line.y))
    if lines:
        marks = tuple((float(step), "restart") for step in _restarted_at(run))
        drawn = figures.line_chart(Chart("loss", "Loss over steps", lines, unit="nats per token", marks=marks))
        yield figure("Loss", drawn, _loss_words(run))
    yield from _simple(run, x, "lr", "Learning rate", "", 2, f"peak {number(run.highest('lr'))}")
    norm = [Line("gradient norm", x, run.numbers("grad_norm"), colour=3)]
    if any(value is not None for value in norm[0].y):
        skipped = int(run.highest("skipped") or 0)
        words = f"median {number(run.typical('grad_norm'))}" + (f", {skipped} steps skipped" if skipped else "")
        if run.spec.clip is not None:
            norm.append(Line(f"clipped at {run.spec.clip:g}", [], [run.spec.clip], "level", 7))
        yield figure("Gradient norm", figures.line_chart(Chart("norm", "Gradient norm", tuple(norm))), words)
    planned = run.plan.tokens_per_s if run.plan else None
    yield from _simple(
        run, x, "tokens_per_s", "Throughput", "tokens per second", 0,
        f"median {amount(run.typical('tokens_per_s'))} tokens/s over all ranks", level=planned, from_zero=True,
    )  # fmt: skip
    yield from _simple(run, x, "mfu", "Model FLOPs utilisation", "share of peak", 6, "", from_zero=True)
    memory = [value / 2**30 if value is not None else None for value in run.numbers("memory_bytes")]
    if any(memory):
        lines = (Line("memory", x, memory, colour=4),)
        drawn = figures.line_chart(Chart("memory", "Memory", lines, unit="GiB", from_zero=True))
        yield figure("Memory of rank 0", drawn, f"peak {bytes_(run.highest('memory_bytes'))}")


def _simple(
    run: RunRecord, x: list[float], field: str, title: str, unit: str, colour: int, words: str,
    level: float | None = None, from_zero: bool = False,
) -> Iterator[str]:  # fmt: skip
    values = run.numbers(field)
    if not any(value is not None for value in values):
        return
    lines = [Line("measured" if level else title, x, values, colour=colour)]
    if level:
        lines.append(Line("planned", [], [level], "level", 7))
    drawn = figures.line_chart(Chart(field, title, tuple(lines), unit=unit, from_zero=from_zero))
    yield figure(title, drawn, words)


def _loss_words(run: RunRecord) -> str:
    parts = []
    known = [value for value in run.numbers("loss") if value is not None]
    if known:
        parts.append(f"training {number(known[0])} → {number(known[-1])}")
    if run.baseline and run.final:
        parts.append(f"held-out {number(run.baseline.get('eval_loss'))} → {number(run.final.get('eval_loss'))}")
    return ", ".join(parts)


def _phases(run: RunRecord) -> Iterator[str]:
    names = dict.fromkeys(name for row in run.steps for name in row.get("phases") or {})
    parts = {name: [(row.get("phases") or {}).get(name) for row in run.steps] for name in names}
    sums = {name: sum(value for value in values if value) for name, values in parts.items()}
    whole = sum(sums.values())
    parts = {name: values for name, values in parts.items() if sums[name] > 0.005 * whole}
    if not parts:
        return
    words = ", ".join(f"{name} {100 * sums[name] / whole:.0f} %" for name in parts)
    x = [float(row["step"]) for row in run.steps]
    drawn = figures.stacked_chart("phases", "Where the time of a step goes", x, parts, "seconds")
    yield figure("Where the time goes", drawn, words)


def _timeline(run: RunRecord) -> Iterator[str]:
    bars = stages(run.events)
    if not bars:
        return
    begin = min(start for _, start, _ in bars)
    seen = [e for e in run.events if e["kind"] in _TOLD and (e.get("rank") in (0, "s") or e["kind"] == "failed")]
    marks = [((float(event["t"]) - begin) / 60, str(event["kind"])) for event in seen]
    rows = [(name, (start - begin) / 60, (end - begin) / 60) for name, start, end in bars]
    times: dict[str, float] = {}
    for name, start, end in bars:
        times[name] = times.get(name, 0.0) + end - start
    words = ", ".join(f"{name} {duration(seconds)}" for name, seconds in times.items())
    yield figure("Timeline", figures.timeline("timeline", "What ran when", rows, marks), words)


def _restarted_at(run: RunRecord) -> list[int]:
    """The step that training went on from, for each restart."""
    begun = [event for event in run.events if event["kind"] == "started" and event.get("rank") == 0]
    return [int(event["step"]) for event in begun[1:] if isinstance(event.get("step"), int)]
