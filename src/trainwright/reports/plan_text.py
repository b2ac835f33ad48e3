"""A plan as text for a terminal: what runs, what each stage holds, where the time goes, why, what else was possible.

Takes plain ``Plan`` values and gives text laid out with rich; colours only where the caller's terminal shows them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table

from trainwright.planner.differ import Change
from trainwright.planner.offers import Offer
from trainwright.planner.plan import Plan, RankClass
from trainwright.planner.remedies import Remedy
from trainwright.reports.words import duration

GIB = 2**30
_KINDS = ("weights", "gradients", "master", "optimizer", "activations", "logits", "communication", "reserve")


def plan_text(plan: Plan, width: int = 110, colour: bool = False) -> str:
    """The whole plan. ``colour`` adds ANSI codes."""
    parts: list[RenderableType] = [_headline(plan)]
    if plan.ranks:
        parts.append(_memory(plan))
    if plan.step_seconds is not None:
        parts.append(_time(plan))
    if plan.reasons:
        parts.append("[bold]Why[/bold]")
        parts += [f" • {_escape(reason.text)} [dim]({_escape(reason.source)})[/dim]" for reason in plan.reasons]
    if rows := plan.extra.get("strategies"):
        parts.append(_strategies(rows))
    if plan.runners_up:
        parts.append(_rivals(plan))
    if plan.rejected:
        parts.append(_rejected(plan))
    if rows := plan.extra.get("offers"):
        parts.append(offers_table([Offer(**row) for row in rows]))
    return _print(parts, width, colour)


def diff_text(changes: Sequence[Change], width: int = 110, colour: bool = False) -> str:
    """What changed between two plans."""
    if not changes:
        return "no difference"
    table = Table("value", "before", "after", "change", box=None, pad_edge=False)
    for change in changes:
        percent = "" if change.percent is None else f"{change.percent:+.1f} %"
        table.add_row(change.name, _value(change.name, change.before), _value(change.name, change.after), percent)
    return _print([table], width, colour)


def remedies_table(found: Iterable[Remedy]) -> Table:
    """What would make a model fit."""
    table = Table("change", "saves per accelerator", "machine time", "layout", box=None, pad_edge=False)
    for r in found:
        saved = f"{r.bytes_saved / GIB:.1f} GiB" if r.bytes_saved > 0 else "–"
        table.add_row(r.change, saved, f"{r.slower:.2f}×", r.layout)
    return table


def offers_table(found: Iterable[Offer]) -> Table:
    """Machine types side by side."""
    table = Table("machine", "nodes", "time", "±", "cost", "tokens/s", "MFU", "layout", box=None, pad_edge=False)
    for o in found:
        if o.layout is None:
            table.add_row(o.machine, str(o.nodes), "–", "–", "–", "–", "–", f"[dim]{_escape(o.reason)}[/dim]")
            continue
        table.add_row(
            o.machine,
            str(o.nodes),
            duration(None if o.hours is None else o.hours * 3600),
            "–" if o.error_pct is None else f"{o.error_pct:.0f} %",
            _money(o.cost),
            f"{o.tokens_per_s:,.0f}",
            f"{100 * (o.mfu or 0):.1f} %",
            o.layout,
        )
    return table


def _headline(plan: Plan) -> str:
    lines = [f"[bold]{_escape(str(plan.layout))}[/bold] on {_escape(plan.machine)}"]
    if run := workload_line(plan):
        lines.append(_escape(run))
    details = [f"recompute {plan.layout.recompute}"]
    if plan.layout.pp > 1:
        details.append(f"schedule {plan.layout.schedule}")
    if plan.extra.get("fits") is False:
        details.append("[red]does not fit[/red]")
    lines.append(", ".join(details))
    if plan.tokens_per_s is not None and plan.step_seconds is not None:
        error = (plan.error_pct or {}).get("time")
        bar = f" ± {error:.0f} %" if error else ""
        lines.append(
            f"{plan.step_seconds.total:.3f} s a step{bar}, {plan.tokens_per_s:,.0f} tokens/s, "
            f"MFU {100 * (plan.mfu or 0):.1f} % [dim]({plan.extra.get('mfu_convention', '')})[/dim]"
        )
    lines += list(_length(plan))
    return "\n".join(lines)


def workload_line(plan: Plan) -> str:
    """What is trained, in one line; empty for a plan that does not say."""
    run = plan.extra.get("workload")
    if not run:
        return ""
    batch, sequence = plan.extra["global_batch_size"], plan.extra["sequence_length"]
    length = ""
    if run["tokens"] or run["steps"]:
        length = f", {run['tokens'] / 1e9:,.4g}B tokens" if run["tokens"] else f", {run['steps']:,} steps"
    size = f"{plan.extra['parameters'] / 1e9:.3g}B"
    model = run["model"] if run["model"] == size else f"{run['model']}, {size}"
    return (
        f"{model} parameters: {run['method']}, {run['precision']}, "
        f"{run['optimizer']}, {plan.extra['stack']} stack; {batch:,} × {sequence:,} tokens a step{length}"
    )


def _length(plan: Plan) -> Iterable[str]:
    if plan.hours is None:
        return
    price = plan.extra.get("price_per_node_hour")
    text = f"{duration(plan.hours * 3600)} in all"
    if plan.cost is not None:
        read = plan.extra.get("price_date")
        when = f", price read {read}" if read else ""
        text += f", {_money(plan.cost)} at ${price:,.2f} per node and hour{when}"
    else:
        text += "; no price is known for this machine (--price gives one)"
    yield text
    good = plan.extra.get("goodput")
    if good and good.get("expected_hours"):
        cost = f", {_money(good['expected_cost'])}" if good.get("expected_cost") is not None else ""
        yield (
            f"with failures: goodput {100 * good['goodput']:.1f} %, {duration(good['expected_hours'] * 3600)}{cost}; "
            f"best checkpoint interval {duration(good['checkpoint_interval'])}"
        )


def _memory(plan: Plan) -> Table:
    error = (plan.error_pct or {}).get("memory")
    capacity = plan.extra.get("capacity_bytes")
    title = "Memory per rank, GiB" + (f" (± {error:.0f} %)" if error else "")
    if capacity:
        title += f" of {capacity / GIB:.1f} usable"
    classes = _classes(plan.ranks)
    kinds = [k for k in _KINDS if any(getattr(rank.bytes, k) for _, rank in classes)]
    table = Table("stage", *kinds, "total", title=title, title_justify="left", box=None, pad_edge=False)
    for name, rank in classes:
        cells = [f"{getattr(rank.bytes, kind) / GIB:.2f}" for kind in kinds]
        table.add_row(name, *cells, f"[bold]{rank.bytes.total / GIB:.2f}[/bold]")
    return table


def _classes(ranks: Sequence[RankClass]) -> list[tuple[str, RankClass]]:
    """Stages that hold the same amount share a row."""
    rows: list[tuple[int, int, RankClass]] = []
    for rank in ranks:
        if rows and rows[-1][2].bytes == rank.bytes:
            rows[-1] = (rows[-1][0], rank.pp_stage, rank)
        else:
            rows.append((rank.pp_stage, rank.pp_stage, rank))
    if len(rows) > 8:
        rows = [*rows[:3], *rows[-3:]]
    return [(str(a) if a == b else f"{a}–{b}", rank) for a, b, rank in rows]


def _time(plan: Plan) -> Table:
    seconds = plan.step_seconds
    assert seconds is not None
    table = Table(
        "part", "ms", "share", title="Time of a step (exposed)", title_justify="left", box=None, pad_edge=False
    )
    for name, value in vars(seconds).items():
        if value:
            share = value / seconds.total
            table.add_row(name, f"{1e3 * value:.1f}", f"{100 * share:5.1f} % {'█' * round(40 * share)}")
    return table


def _strategies(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "strategy", "GiB per rank", "communication", "s a step", "moving parts", "best layout of its kind",
        title="Strategies for this model on this machine", title_justify="left", box=None, pad_edge=False,
    )  # fmt: skip
    for row in rows:
        if row["layout"] is None:
            table.add_row(row["name"], "–", "–", "–", row["moving_parts"], f"[dim]{row['note']}[/dim]")
            continue
        held = f"{row['bytes_per_rank'] / GIB:.1f}" + ("" if row["fits"] else " [red]no room[/red]")
        table.add_row(
            row["name"],
            held,
            f"{100 * row['communication_share']:.1f} %",
            f"{row['seconds']:.3f}",
            row["moving_parts"],
            row["layout"],
        )
    return table


def _rivals(plan: Plan) -> Table:
    from trainwright.models.layout import Layout

    table = Table(
        "runner-up", "s a step", "slower", "GiB", title="Next best", title_justify="left", box=None, pad_edge=False
    )
    best = plan.step_seconds.total if plan.step_seconds else None
    for rival in plan.runners_up[:6]:
        slower = f"{100 * (rival['seconds'] / best - 1):+.1f} %" if best else ""
        layout, gib = Layout.from_dict(rival["layout"]), rival["peak_bytes"] / GIB
        table.add_row(str(layout), f"{rival['seconds']:.3f}", slower, f"{gib:.1f}")
    return table


def _rejected(plan: Plan) -> Table:
    table = Table("layout", "reason", title="Not possible", title_justify="left", box=None, pad_edge=False)
    for one in plan.rejected[:6]:
        table.add_row(str(one.layout), _escape(one.reason))
    more = len(plan.rejected) - 6
    if more > 0:
        table.add_row(f"[dim]and {more} more (--output json)[/dim]", "")
    return table


def _value(name: str, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and name.startswith("ranks."):
        return f"{value / GIB:.2f} GiB"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _money(value: float | None) -> str:
    return "–" if value is None else f"${value:,.0f}" if value >= 100 else f"${value:,.2f}"


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def render(parts: Sequence[RenderableType], width: int = 110, colour: bool = False) -> str:
    """Tables and marked-up lines as one text."""
    return _print(parts, width, colour)


def _print(parts: Sequence[RenderableType], width: int, colour: bool) -> str:
    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width, force_terminal=colour, no_color=not colour, highlight=False, soft_wrap=False
    )
    for i, part in enumerate(parts):
        if i and isinstance(part, Table):
            console.print()
        console.print(part)
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip().splitlines())
