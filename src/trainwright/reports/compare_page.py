"""Several runs side by side: results, curves in one drawing, and only what differs in their specs.

Takes RunRecords, gives HTML; the runs keep one colour each throughout the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trainwright
from trainwright.reports import figures
from trainwright.reports.figures import Chart, Line
from trainwright.reports.markup import Cell, figure, keys, page, preformatted, section, table, text
from trainwright.reports.record import RunRecord
from trainwright.reports.words import amount, bytes_, duration, number

_CURVES = (
    ("loss", "Training loss", "nats per token", False),
    ("lr", "Learning rate", "", False),
    ("grad_norm", "Gradient norm", "", False),
    ("tokens_per_s", "Throughput", "tokens per second", True),
)
_MISSING = "–"


def compare_page(runs: Sequence[RunRecord]) -> str:
    """A whole HTML document."""
    title = f"{len(runs)} runs compared"
    parts = [
        section("results", "Results", _results(runs)),
        section("curves", "Curves", _charts(runs)),
        section("differences", "What differs in the specs", _differences(runs)),
        section("samples", "Samples", _samples(runs)),
    ]
    head = f'<header><h1>{text(title)}</h1><p class="lead">{text(", ".join(run.run_id for run in runs))}</p></header>'
    foot = f"<footer>Written by Trainwright {text(trainwright.__version__)}.</footer>"
    return page(f"{title} · Trainwright", "\n".join([head, *filter(None, parts), foot]))


def _results(runs: Sequence[RunRecord]) -> str:
    losses = {run.run_id: run.final.get("eval_loss") for run in runs if run.final}
    known = [loss for loss in losses.values() if loss is not None]
    best = min(known) if len(known) > 1 else None
    rows = []
    for run in runs:
        outcome, loss = run.outcome(), losses.get(run.run_id)
        before = number(run.baseline.get("eval_loss")) if run.baseline else _MISSING
        rows.append(
            (
                run.run_id,
                Cell(outcome.word, tone="" if outcome.tone == "plain" else outcome.tone),
                f"{run.last_step:,}",
                before,
                Cell(number(loss), number=True, tone="good" if loss is not None and loss == best else ""),
                amount(run.typical("tokens_per_s")),
                bytes_(run.highest("memory_bytes")),
                duration(run.seconds),
                str(run.restarts),
            )
        )
    heads = ("Run", "Outcome", "Steps", "Before", "Held-out loss", "Tokens/s", "Memory", "Time", "Restarts")
    tasks = sorted({str(task["name"]) for run in runs for task in run.evaluation.get("tasks") or []})
    scores = [(name, *(_score(run, name) for run in runs)) for name in tasks]
    return table(heads, rows, numbers=range(2, 9)) + table(
        ("Task", *(run.run_id for run in runs)), scores, numbers=range(1, len(runs) + 1)
    )


def _score(run: RunRecord, name: str) -> str:
    found = [task.get("score") for task in run.evaluation.get("tasks") or [] if task.get("name") == name]
    return number(found[0]) if found else _MISSING


def _charts(runs: Sequence[RunRecord]) -> str:
    drawn = []
    held_out = tuple(
        Line(
            run.run_id,
            [float(e["step"]) for e in run.evals],
            [e.get("eval_loss") for e in run.evals],
            "marked",
            place,
        )
        for place, run in enumerate(runs)
        if run.evals
    )
    if held_out:
        drawn.append(_chart("held-out", "Held-out loss", held_out, "nats per token", False))
    for field, title, unit, from_zero in _CURVES:
        lines = tuple(
            Line(run.run_id, [float(row["step"]) for row in run.steps], run.numbers(field), colour=place)
            for place, run in enumerate(runs)
            if any(value is not None for value in run.numbers(field))
        )
        if lines:
            drawn.append(_chart(field, title, lines, unit, from_zero))
    legend = keys([run.run_id for run in runs])
    return f'{legend}<div class="charts">{"".join(drawn)}</div>' if drawn else ""


def _chart(name: str, title: str, lines: tuple[Line, ...], unit: str, from_zero: bool) -> str:
    return figure(title, figures.line_chart(Chart(name, title, lines, unit=unit, from_zero=from_zero, legend=False)))


def _differences(runs: Sequence[RunRecord]) -> str:
    flat = [_flat(run.spec.to_dict()) for run in runs]
    names = list(dict.fromkeys(name for values in flat for name in values))
    rows: list[tuple[Cell | str, ...]] = [
        (name, *(Cell(values.get(name, _MISSING), wrap=True) for values in flat))
        for name in names
        if len({values.get(name) for values in flat}) > 1
    ]
    heads = ("Field", *(run.run_id for run in runs))
    return table(heads, rows) or '<p class="lead">Nothing: the specs are the same.</p>'


def _flat(value: Any, where: str = "") -> dict[str, str]:
    """Leaves of nested mappings by dotted name; a list is one leaf."""
    if isinstance(value, dict) and value:
        return {
            name: leaf
            for key, child in value.items()
            for name, leaf in _flat(child, f"{where}.{key}" if where else str(key)).items()
        }
    if isinstance(value, list):
        return {where: ", ".join(map(str, value)) or _MISSING}
    return {where: _MISSING if value in (None, {}) else str(value)}


def _samples(runs: Sequence[RunRecord]) -> str:
    texts: dict[str, dict[str, str]] = {}
    for run in runs:
        for sample in run.evaluation.get("samples") or []:
            texts.setdefault(str(sample.get("prompt", "")), {})[run.run_id] = str(sample.get("text", ""))
    made = []
    for prompt, answers in texts.items():
        panes = "".join(
            f'<div><div class="label">{text(run_id)}</div>{preformatted(words, prompt)}</div>'
            for run_id, words in answers.items()
        )
        made.append(f'<div class="card pad"><div class="pair">{panes}</div></div>')
    return f'<div class="samples">{"".join(made)}</div>' if made else ""
