"""How well the planner predicts published measurements, next to two naive baselines, and whether it generalises.

    python benchmarks/planner_accuracy.py                        # every CSV in benchmarks/data/planner
    python benchmarks/planner_accuracy.py --csv FILE --output json
    python benchmarks/planner_accuracy.py --leave-out model      # constants fitted without the model they predict
    python benchmarks/planner_accuracy.py --published            # tables of papers that nothing was fitted on

Any CSV in a shape that ``planner_cases`` knows is read; ``--machine`` (an instance type or a machine file) replaces
the shape's default. JSON: {"files": {NAME: {rows, time, memory, regret, baselines}}, "rows": [...]}.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import planner_baselines
import planner_fit
from planner_cases import Case, read

from trainwright.errors import TrainwrightError
from trainwright.facts import machine_file
from trainwright.planner.constants import constants_for
from trainwright.planner.inputs import machine_of
from trainwright.planner.step import StepModel
from trainwright.planner.workload import Machine

DATA = Path(__file__).parent / "data" / "planner"


@dataclass(frozen=True)
class Row:
    """One case with what was predicted; a part that was not measured is None."""

    case: Case
    seconds: float | None
    bytes: int | None
    hfu: float | None
    alpha_beta: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        case = self.case
        return {
            "file": case.file,
            "row": case.label,
            "refused": case.refused or None,
            "group": case.group or None,
            "time": _compare(self.seconds, case.seconds),
            "memory": _compare(self.bytes, case.bytes),
        }


def predict(case: Case, values: planner_fit.Values | None = None) -> Row:
    """Predict one case; ``values`` replaces shipped constants (a fit that left something out)."""
    if case.refused:
        return Row(case, None, None, None, None)
    machine, workload = case.machine, case.workload
    overlay = planner_fit.overlay_of(case, values) if values else None
    constants = constants_for(machine.accelerator, machine.fabric, workload.stack, overlay)
    model = StepModel(workload, machine, constants)
    seconds = model.seconds(case.layout, case.stages).total if case.seconds else None
    peak = None
    if case.bytes:
        # What a framework's allocator reports: nothing that lies outside it, hence without the reserve.
        ranks = model.memory.ranks(case.layout, case.stages, with_reserve=False)
        peak = ranks[-1].total if "megatron" in case.file else max(rank.total for rank in ranks)
    return Row(
        case,
        seconds,
        peak,
        planner_baselines.constant_hfu(case) if case.seconds else None,
        planner_baselines.alpha_beta(case) if case.seconds else None,
    )


def _compare(predicted: float | None, measured: float | None) -> dict[str, float] | None:
    if predicted is None or measured is None:
        return None
    return {"predicted": predicted, "measured": measured, "error_pct": 100 * (predicted / measured - 1)}


def summary(pairs: Sequence[tuple[float, float]]) -> dict[str, float | None] | None:
    """Errors of (predicted, measured) pairs in percent of the measured; None without pairs."""
    if not pairs:
        return None
    errors = sorted(100 * abs(p / m - 1) for p, m in pairs)
    return {
        "mape_pct": statistics.fmean(errors),
        "median_pct": statistics.median(errors),
        "p90_pct": errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        "worst_pct": errors[-1],
        "spearman": spearman(pairs),
    }


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Rank correlation with mean ranks for ties; None for fewer than three pairs or constant ranks."""
    if len(pairs) < 3:
        return None
    a, b = _ranks([p for p, _ in pairs]), _ranks([m for _, m in pairs])
    mean = (len(pairs) + 1) / 2
    up = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    down = (sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)) ** 0.5
    return up / down if down else None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for i in order[start : end + 1]:
            ranks[i] = (start + end) / 2 + 1
        start = end + 1
    return ranks


def regret(rows: Iterable[Row], predicted: Callable[[Row], float | None]) -> dict[str, float] | None:
    """How much slower the layout that the prediction ranks first is than the group's best, over groups of two up."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.case.seconds and row.case.group and predicted(row):
            groups[row.case.group].append(row)
    lost = []
    for members in groups.values():
        if len({m.case.layout for m in members}) < 2:
            continue
        chosen = min(members, key=lambda m: predicted(m) or 0.0)
        best = min(m.case.seconds or 0.0 for m in members)
        lost.append(100 * ((chosen.case.seconds or 0.0) / best - 1))
    if not lost:
        return None
    return {"groups": len(lost), "median_pct": statistics.median(lost), "worst_pct": max(lost)}


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """One file's part of the JSON."""

    def times(pick: Callable[[Row], float | None]) -> list[tuple[float, float]]:
        return [(value, row.case.seconds) for row in rows if row.case.seconds and (value := pick(row))]

    memory_pairs = [(float(row.bytes), float(row.case.bytes)) for row in rows if row.bytes and row.case.bytes]
    memory = summary(memory_pairs)
    if memory is not None:
        memory["under_15_share"] = sum(p < 0.85 * m for p, m in memory_pairs) / len(memory_pairs)
        memory["signed_pct"] = statistics.fmean(100 * (p / m - 1) for p, m in memory_pairs)
    baselines = {
        name: {"time": summary(times(pick)), "regret": regret(rows, pick)}
        for name, pick in (("constant_hfu", lambda r: r.hfu), ("alpha_beta", lambda r: r.alpha_beta))
    }
    return {
        "rows": sum(not row.case.refused for row in rows),
        "refused": sum(bool(row.case.refused) for row in rows),
        "time": summary(times(lambda r: r.seconds)),
        "memory": memory,
        "regret": regret(rows, lambda r: r.seconds),
        "baselines": baselines if any(b["time"] for b in baselines.values()) else None,
    }


def left_out(cases: Sequence[Case], by: str) -> list[Row]:
    """Each group (model, machine or source) predicted with constants fitted on the others alone."""
    key: Callable[[Case], str] = {
        "model": lambda c: f"{c.file} {c.model}",
        "machine": lambda c: c.machine.accelerator,
        "source": lambda c: c.file,
    }[by]
    known = [c for c in cases if c.seconds and not c.refused]
    rows = []
    for name in sorted({key(c) for c in known}):
        out = [c for c in known if key(c) == name]
        # Constants that the held-out rows depend on, fitted on every other row that depends on one of them too.
        free = [f for f in planner_fit.ALL if planner_fit.sees(f, out)]
        seen = [c for c in known if key(c) != name and any(planner_fit.sees(f, [c]) for f in free)]
        free = [f for f in planner_fit.ALL if planner_fit.sees(f, seen)]
        values = planner_fit.fit(planner_fit.thinned(seen), free, planner_fit.neutral(), sweeps=8)
        held = [predict(c, values) for c in out]
        rows += held
        errors = summary([(r.seconds, r.case.seconds) for r in held if r.seconds and r.case.seconds])
        print(f"  without {name}: {len(held)} rows, {_line(errors)}", file=sys.stderr, flush=True)
    return rows


def _line(errors: dict[str, Any] | None) -> str:
    if errors is None:
        return "–"
    rank = "–" if errors["spearman"] is None else f"{errors['spearman']:.3f}"
    return (
        f"MAPE {errors['mape_pct']:.1f} %, median {errors['median_pct']:.1f} %, p90 {errors['p90_pct']:.1f} %, "
        f"worst {errors['worst_pct']:.1f} %, Spearman {rank}"
    )


def text(report: dict[str, Any], show_rows: bool) -> str:
    """The report for people."""
    lines = []
    for row in report["rows"] if show_rows else ():
        for part in ("time", "memory"):
            if value := row[part]:
                unit, scale = ("s", 1.0) if part == "time" else ("GiB", 2**30)
                lines.append(
                    f"{value['error_pct']:+7.1f} %  {value['predicted'] / scale:10.3f} {unit} predicted  "
                    f"{value['measured'] / scale:10.3f} {unit} measured  {row['row']}"
                )
        if row["refused"]:
            lines.append(f"   refused  {row['row']}: {row['refused']}")
    for name, part in report["files"].items():
        lines.append(f"\n{name}: {part['rows']} rows" + (f", {part['refused']} refused" if part["refused"] else ""))
        if part["time"]:
            lines.append(f"  time            {_line(part['time'])}")
            for baseline, errors in (part["baselines"] or {}).items():
                lines.append(f"  {baseline:<15} {_line(errors['time'])}")
        if part["memory"]:
            memory = part["memory"]
            lines.append(
                f"  memory          {_line(memory)}, signed {memory['signed_pct']:+.1f} %, "
                f"under by more than 15 %: {100 * memory['under_15_share']:.1f} % of rows"
            )
        for who, value in (
            ("regret", part["regret"]),
            *((f"  {b}", e["regret"]) for b, e in (part["baselines"] or {}).items()),
        ):
            if value:
                lines.append(
                    f"  {who:<15} {value['groups']} groups, median {value['median_pct']:.2f} %, "
                    f"worst {value['worst_pct']:.2f} %"
                )
    return "\n".join(lines).strip()


def finder(machine: str | None) -> Callable[[str, int], Machine] | None:
    """How ``--machine`` becomes a cluster of so many accelerators; None for each shape's default."""
    if machine is None:
        return None
    one = machine_of(machine_file.find(machine), 1)

    def find(_: str, gpus: int) -> Machine:
        if gpus < one.per_node:
            return replace(one, per_node=gpus, inter_bandwidth=one.inter_bandwidth * gpus / one.per_node)
        return replace(one, nodes=-(-gpus // one.per_node))

    return find


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 when it could be run, 2 for bad input."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--csv", type=Path, action="append", help="measurements; default: all that are shipped")
    parser.add_argument("--machine", help="instance type or machine file instead of the shape's default")
    parser.add_argument("--leave-out", choices=("model", "machine", "source"), help="refit without what is predicted")
    parser.add_argument("--published", action="store_true", help="check tables of papers that nothing was fitted on")
    parser.add_argument("--no-rows", action="store_true", help="print the summary alone")
    parser.add_argument("--output", "-o", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    if options.published:
        from planner_published import report as published

        print(published(options.output))
        return 0
    paths = options.csv or sorted(DATA.glob("*.csv"))
    try:
        find = finder(options.machine)
        cases = [c for path in paths for c in (read(path, options.machine, find) if find else read(path))]
        rows = left_out(cases, options.leave_out) if options.leave_out else [predict(case) for case in cases]
    except (OSError, ValueError, KeyError, TrainwrightError) as error:
        message = f"cannot read {error}" if isinstance(error, KeyError) else str(error)
        print(message, file=sys.stderr)
        return 2
    by_file: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_file[row.case.file].append(row)
    report = {
        "files": {name: summarise(members) for name, members in by_file.items()},
        "rows": [row.to_dict() for row in rows],
    }
    print(json.dumps(report, indent=2) if options.output == "json" else text(report, not options.no_rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
