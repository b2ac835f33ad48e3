"""Curves as inline SVG, drawn by matplotlib in the colours of the page they stand in.

Takes plain numbers, gives SVG text that names no colour, font or address of its own: the page's style sheet decides,
so that one drawing serves light, dark and print. Knows nothing of runs.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any

from trainwright.errors import MissingExtra

Numbers = Sequence[float | None]

#: Stand-ins for colours of the style sheet. Any: they only must differ and be no grey of matplotlib's own.
_INK, _MUTED, _GRID, _PAPER = "#010203", "#020304", "#030405", "#040506"
_SERIES = ("#0a0001", "#0a0002", "#0a0003", "#0a0004", "#0a0005", "#0a0006", "#0a0007", "#0a0008")
_NAMES = {_INK: "ink", _MUTED: "muted", _GRID: "grid", _PAPER: "card"} | {
    colour: f"c{number}" for number, colour in enumerate(_SERIES, 1)
}
_WIDTH, _HEIGHT = 4.6, 2.5  # inches of 72 points: legible on a phone at full width, two beside each other on a desk
_MOST_POINTS = 600


@dataclass(frozen=True)
class Line:
    """One curve. ``kind``: ``line``, ``marked`` (points that were measured), ``level`` (one dashed y for all x)."""

    label: str
    x: Sequence[float]
    y: Numbers
    kind: str = "line"
    colour: int = 0


@dataclass(frozen=True)
class Chart:
    """A chart of one or more curves over a shared x axis."""

    name: str
    title: str
    lines: tuple[Line, ...]
    x_label: str = "step"
    unit: str = ""
    from_zero: bool = False
    legend: bool = True
    marks: tuple[tuple[float, str], ...] = field(default=())
    """Vertical lines: x and a word."""


def line_chart(chart: Chart) -> str:
    """SVG of curves. Values that are missing or not finite leave a gap."""
    with _figure() as (figure, axes):
        for line in chart.lines:
            _draw(axes, line)
        for x, word in chart.marks:
            axes.axvline(x, color=_MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
            axes.annotate(
                _text(word), (x, 1), xycoords=("data", "axes fraction"), xytext=(2, -8), textcoords="offset points",
                fontsize=7, color=_MUTED,
            )  # fmt: skip
        _finish(axes, chart.x_label, chart.unit)
        if chart.from_zero:
            axes.set_ylim(bottom=0)
        if chart.legend and len(chart.lines) > 1:
            _legend(axes, len(chart.lines))
        return _svg(figure, chart.name, chart.title)


def stacked_chart(name: str, title: str, x: Sequence[float], parts: Mapping[str, Numbers], unit: str) -> str:
    """SVG of parts that add up, one bar for each x, or for each group of neighbours where there are many."""
    centres, width, groups = _grouped(x, parts)
    with _figure() as (figure, axes):
        below = [0.0] * len(centres)
        for number, (label, values) in enumerate(groups.items()):
            axes.bar(
                centres, values, width * 0.86, bottom=below, color=_SERIES[number % len(_SERIES)], label=_text(label)
            )
            below = [low + value for low, value in zip(below, values, strict=True)]
        _finish(axes, "step", unit)
        _legend(axes, len(groups))
        return _svg(figure, name, title)


def timeline(
    name: str, title: str, bars: Sequence[tuple[str, float, float]], marks: Sequence[tuple[float, str]]
) -> str:
    """SVG of what happened when: bars as (row, begin, end) and marks as (time, kind), both in minutes."""
    rows = list(dict.fromkeys(row for row, _, _ in bars))
    kinds = list(dict.fromkeys(kind for _, kind in marks))
    with _figure(height=max(_HEIGHT, 0.9 + 0.27 * (len(rows) + bool(kinds)))) as (figure, axes):
        for row, begin, end in bars:
            place = rows.index(row)
            axes.barh(place, end - begin, 0.62, left=begin, color=_SERIES[place % 4], edgecolor=_PAPER, linewidth=0.6)
        shapes = "ovDXs^P*"
        for number, kind in enumerate(kinds):
            times = [time for time, other in marks if other == kind]
            axes.plot(
                times, [len(rows)] * len(times), shapes[number % len(shapes)], markersize=5,
                color=_SERIES[(number + 4) % 8],
                label=_text(kind), linestyle="none",
            )  # fmt: skip
        axes.set_yticks(range(len(rows) + bool(kinds)), [_text(row) for row in rows] + ["events"] * bool(kinds))
        axes.set_ylim(len(rows) + bool(kinds) - 0.4, -0.6)
        _finish(axes, "minutes since the start", "", rows=True)
        if kinds:
            _legend(axes, len(kinds))
        return _svg(figure, name, title)


def bar_rows(name: str, title: str, rows: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """SVG of horizontal bars, a row each, cut into named parts."""
    parts = list(dict.fromkeys(part for row in rows.values() for part, value in row.items() if value))
    with _figure(height=0.95 + 0.3 * len(rows)) as (figure, axes):
        for place, row in enumerate(rows.values()):
            left = 0.0
            for number, part in enumerate(parts):
                value = row.get(part, 0.0)
                axes.barh(
                    place,
                    value,
                    0.62,
                    left=left,
                    color=_SERIES[number % 8],
                    label=_text(part) if place == 0 else None,
                )
                left += value
        axes.set_yticks(range(len(rows)), [_text(row) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        _finish(axes, unit, "", rows=True)
        _legend(axes, len(parts))
        return _svg(figure, name, title)


@contextmanager
def _figure(height: float = _HEIGHT) -> Iterator[tuple[Any, Any]]:
    try:
        import matplotlib
        from matplotlib.figure import Figure  # not pyplot: it keeps figures alive and looks for a display
    except ImportError:
        raise MissingExtra("a report with curves", "report") from None
    settings = {
        "svg.fonttype": "none", "font.size": 8, "font.family": "DejaVu Sans", "axes.spines.top": False,
        "axes.spines.right": False, "axes.edgecolor": _GRID, "axes.labelcolor": _MUTED, "xtick.color": _MUTED,
        "ytick.color": _MUTED, "text.color": _INK, "grid.color": _GRID, "axes.grid": True, "grid.linewidth": 0.6,
        "axes.axisbelow": True, "xtick.major.size": 0, "ytick.major.size": 0, "path.simplify": True,
        "axes.formatter.limits": (-3, 5), "axes.formatter.useoffset": False,
    }  # fmt: skip
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained", facecolor="none")
        axes = figure.subplots()
        axes.set_facecolor("none")
        yield figure, axes


def _draw(axes: Any, line: Line) -> None:
    colour = _SERIES[line.colour % len(_SERIES)]
    if line.kind == "level":
        axes.axhline(line.y[0], color=colour, linewidth=1, linestyle=(0, (4, 3)), label=_text(line.label))
        return
    pairs = _thinned([(x, _plain(y)) for x, y in zip(line.x, line.y, strict=True)])
    style = {"marker": "o", "markersize": 3.5} if line.kind == "marked" or len(pairs) == 1 else {}
    axes.plot(
        [x for x, _ in pairs], [y for _, y in pairs], color=colour, linewidth=1.4, label=_text(line.label),
        solid_joinstyle="round", **style,
    )  # fmt: skip


def _thinned(pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most so many points: the lowest and the highest of each group of neighbours, so that no spike is lost."""
    if len(pairs) <= _MOST_POINTS:
        return pairs
    size = math.ceil(2 * len(pairs) / _MOST_POINTS)
    kept = []
    for start in range(0, len(pairs), size):
        group = [pair for pair in pairs[start : start + size] if not math.isnan(pair[1])]
        kept += sorted({min(group, key=lambda p: p[1]), max(group, key=lambda p: p[1])}) if group else [pairs[start]]
    return kept


def _grouped(x: Sequence[float], parts: Mapping[str, Numbers]) -> tuple[list[float], float, dict[str, list[float]]]:
    """Centres, width and mean values of at most 60 bars."""
    size = max(1, math.ceil(len(x) / 60))
    starts = range(0, len(x), size)

    def mean(values: Numbers) -> float:
        known = [value for value in values if value is not None and math.isfinite(value)]
        return sum(known) / len(known) if known else 0.0

    centres = [mean(x[start : start + size]) for start in starts]
    groups = {label: [mean(values[start : start + size]) for start in starts] for label, values in parts.items()}
    width = (max(centres) - min(centres)) / (len(centres) - 1) if len(centres) > 1 else 1.0
    return centres, width, {label: values for label, values in groups.items() if any(values)}


def _finish(axes: Any, x_label: str, y_label: str, rows: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.grid(visible=True, axis="x" if rows else "y")
    axes.grid(visible=False, axis="y" if rows else "x")
    axes.set_xlabel(_text(x_label))
    axes.margins(x=0.02)
    if rows:
        axes.spines["left"].set_visible(False)
    else:
        axes.set_ylabel(_text(y_label))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(lambda value, _: _tick(value))


def _tick(value: float) -> str:
    """A number beside an axis, without a factor that stands elsewhere."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _legend(axes: Any, count: int) -> None:
    legend = axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=min(count, 4), frameon=False, handlelength=1.1,
        columnspacing=1.2,
        borderaxespad=0.1, handletextpad=0.5,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_color(_MUTED)


def _plain(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else math.nan


def _text(words: str) -> str:
    """Words that matplotlib takes as they are, a dollar sign not being the start of a formula."""
    return words.replace("\\", "\\\\").replace("$", r"\$")


def _svg(figure: Any, name: str, title: str) -> str:
    """The drawing as an element to stand in a page: own ids, no document header, colours by name."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):  # the same drawing is the same text
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return embeddable(buffer.getvalue(), name, title)


def embeddable(svg: str, name: str, title: str) -> str:
    """Take an SVG document into a page: ids get the chart's name in front, stand-ins become the page's colours."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style\b.*?</style>\s*", "", svg, flags=re.DOTALL)  # it would style the whole page
    svg = re.sub(
        r'<svg[^>]*?viewBox="([^"]*)"[^>]*>',
        rf'<svg viewBox="\1" role="img" aria-label="{escape(title)}">',
        svg,
        count=1,
    )
    used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", svg)
    svg = re.sub(r'(?:xlink:)?href="#([^"]*)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]*)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    svg = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", svg)
    for colour, variable in _NAMES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return re.sub(r"\n\s*", "\n", svg)
