"""The report of one run as a page: how it ended, what came out, and everything needed to believe it.

Takes a RunRecord, gives HTML. Sections without content are left out, headings and links alike.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import trainwright
from trainwright.reports import figures, plan_pictures
from trainwright.reports.markup import Cell, details, figure, page, preformatted, section, table, text, tile
from trainwright.reports.record import Row, RunRecord
from trainwright.reports.run_charts import charts
from trainwright.reports.words import amount, bytes_, duration, number

_SHOWN_EVENTS = ("restarted", "failed", "signal", "finished")


def run_page(run: RunRecord) -> str:
    """A whole HTML document."""
    parts = [
        ("curves", "Curves", charts(run)),
        ("evaluation", "Evaluation", _evaluation(run)),
        ("samples", "Samples", _samples(run)),
        ("checkpoints", "Checkpoints", _checkpoints(run)),
        ("events", "What happened", _events(run)),
        ("data", "Data", _data(run)),
        ("plan", "Plan", _plan(run)),
        ("spec", "Spec", details("Show the resolved spec", preformatted(run.spec_text))),
    ]
    shown = [part for part in parts if part[2]]
    links = "".join(f'<a href="#{anchor}">{text(title)}</a>' for anchor, title, _ in shown)
    body = "\n".join(section(*part) for part in shown)
    return page(
        f"{run.run_id} · Trainwright", f"{_head(run)}\n<nav>{links}</nav>\n{_tiles(run)}\n{body}\n{_foot(run)}"
    )


def _head(run: RunRecord) -> str:
    outcome = run.outcome()
    notice = f'<div class="notice {outcome.tone}">{text(outcome.sentence)}</div>' if outcome.sentence else ""
    pill = f'<span class="pill {outcome.tone}">{text(outcome.word)}</span>'
    return (
        f'<header><div class="head"><h1>{text(run.run_id)}</h1>{pill}</div>\n'
        f'<p class="lead">{text(describe(run))}</p>{notice}</header>'
    )


def describe(run: RunRecord) -> str:
    """What was trained, on what, in one line."""
    spec = run.spec
    if spec.train:
        what = f"own script {Path(spec.train.script).name}"
    else:
        assert spec.model is not None
        model = Path(spec.model.path).name if spec.model.path.startswith("/") else spec.model.path
        method = f"LoRA rank {spec.lora.rank}" if spec.method == "lora" else "all weights"
        what = f"{model}, {'from scratch' if spec.model.from_scratch else method}"
    parts = [what]
    if run.plan:
        ranks = run.plan.layout.world_size
        parts.append(f"{ranks} rank{'s' if ranks > 1 else ''} on {run.plan.machine}")
    if run.events:
        parts.append(time.strftime("%Y-%m-%d %H:%M", time.localtime(float(run.events[0]["t"]))))
    return " · ".join(parts)


def _tiles(run: RunRecord) -> str:
    made = []
    if run.final:
        before = run.baseline
        after, first = run.final.get("eval_loss"), before.get("eval_loss") if before else None
        change = after / first - 1 if after is not None and first else None  # a loss that is not finite is null
        more = f"{_signed(change)} from {number(before['eval_loss'])}" if before and change is not None else ""
        tone = "" if change is None else ("good" if change < 0 else "bad")
        made.append(tile("Held-out loss", number(run.final.get("eval_loss")), more, tone))
        if run.final.get("perplexity") is not None:
            old = f"from {number(before.get('perplexity'))}" if before else ""
            made.append(tile("Perplexity", number(run.final["perplexity"]), old))
    elif run.steps:
        made.append(tile("Training loss", number(run.steps[-1].get("loss"))))
    if run.steps:
        total = f" / {run.total_steps:,}" if run.total_steps else ""
        made.append(tile("Steps", f"{run.last_step:,}{total}", f"{amount(run.steps[-1].get('tokens'))} tokens"))
    if (speed := run.typical("tokens_per_s")) is not None:
        mfu = run.typical("mfu")
        made.append(tile("Tokens/s", amount(speed), f"MFU {mfu:.1%}" if mfu else "median, all ranks"))
    if (memory := run.highest("memory_bytes")) is not None:
        made.append(tile("Peak memory", bytes_(memory), "rank 0"))
    if run.seconds is not None:
        again = f"{run.restarts} restart{'s' if run.restarts > 1 else ''}" if run.restarts else "no restart"
        made.append(tile("Wall time", duration(run.seconds), again))
    registered = run.evaluation.get("registered")
    if registered:
        also = ", ".join(map(str, registered.get("aliases") or []))
        more = f"version {registered.get('version')}" + (f" · {also}" if also else "")
        made.append(tile("Registered", str(registered.get("name")), more))
    return f'<div class="tiles">{"".join(made)}</div>' if made else ""


def _evaluation(run: RunRecord) -> str:
    rows: list[tuple[Cell | str, ...]] = []
    before, after = run.baseline, run.final
    if after:
        for name, field, unit in (
            ("Held-out loss", "eval_loss", "nats per token"), ("Perplexity", "perplexity", ""),
            ("Bits per byte", "bits_per_byte", ""),
        ):  # fmt: skip
            if after.get(field) is not None:
                rows.append((name, number(before.get(field)) if before else "–", number(after[field]), unit))
    for task in run.evaluation.get("tasks") or []:
        error = f" ± {task['standard_error']:.3f}" if task.get("standard_error") is not None else ""
        what = f"{task.get('metric')} over {task.get('rows')} rows"
        rows.append((str(task.get("name")), "–", f"{number(task.get('score'))}{error}", what))
    parts = [table(("", "Before", "After", ""), rows, numbers=(1, 2))]
    gate = run.evaluation.get("gate") or {}
    if gate.get("text"):
        tone = " good" if gate.get("holds") else " warn"
        parts.append(f'<div class="notice{tone}">Gate: {text(gate.get("sentence", ""))}</div>')
    if run.evaluation.get("chosen"):
        parts.append(
            f'<p class="lead">Step {text(run.evaluation.get("step"))} was kept: {text(run.evaluation["chosen"])}.</p>'
        )
    parts += [f'<p class="lead">{text(note)}</p>' for note in run.evaluation.get("notes") or []]
    parts += [_examples(task) for task in run.evaluation.get("tasks") or [] if task.get("examples")]
    return "\n".join(part for part in parts if part)


def _examples(task: Row) -> str:
    rows = [
        (
            Cell(str(example.get("prompt")), wrap=True), Cell(str(example.get("wanted")), wrap=True),
            Cell(str(example.get("given")), tone="good" if example.get("correct") else "bad", wrap=True),
        )
        for example in task["examples"]
    ]  # fmt: skip
    return details(f"First answers to {task.get('name')}", table(("Asked", "Right", "Given"), rows))


def _samples(run: RunRecord) -> str:
    made = []
    for sample in run.evaluation.get("samples") or []:
        prompt, after, before = str(sample.get("prompt", "")), str(sample.get("text", "")), sample.get("before")
        panes = [("Before", str(before))] if before is not None else []
        panes.append(("After" if panes else "", after))
        columns = "".join(
            f"<div>{f'<div class=label>{text(name)}</div>' if name else ''}{preformatted(words, prompt)}</div>"
            for name, words in panes
        )
        made.append(f'<div class="card pad"><div class="pair">{columns}</div></div>')
    return f'<div class="samples">{"".join(made)}</div>' if made else ""


def _checkpoints(run: RunRecord) -> str:
    saved = {event.get("step"): event for event in run.events if event["kind"] == "saved"}
    evals = {row["step"]: row.get("eval_loss") for row in run.evals}
    rows = []
    for checkpoint in run.checkpoints:
        name = f"step {checkpoint['step']:,}"
        if checkpoint.get("damage"):
            rows.append((name, "–", "–", "–", Cell(checkpoint["damage"], tone="bad", wrap=True)))
            continue
        step = checkpoint["step"]
        kept = Cell("kept as the model", tone="good") if step == run.evaluation.get("step") else Cell("")
        seconds = saved.get(step, {}).get("seconds")
        rows.append((name, bytes_(checkpoint["bytes"]), duration(seconds), number(evals.get(step)), kept))
    gone = len({event.get("step") for event in run.events if event["kind"] == "saved"}) - len(run.checkpoints)
    told = f'<p class="lead">{gone} older ones were deleted after a newer one was verified.</p>' if gone > 0 else ""
    return table(("Checkpoint", "Size", "Written in", "Held-out loss", ""), rows, numbers=(1, 2, 3)) + told


def _events(run: RunRecord) -> str:
    """What a person should know of: restarts, failures, signals, damage; not every step and save."""
    begin = float(run.events[0]["t"]) if run.events else 0.0
    rows: list[tuple[Cell | str, ...]] = []
    for event in run.events:
        damage = event["kind"] == "verified" and event.get("ok") is False
        if event["kind"] not in _SHOWN_EVENTS and not damage:
            continue
        if event["kind"] == "finished" and event.get("rank") != "s":
            continue
        tone = "bad" if event["kind"] == "failed" or damage else ""
        who = "supervisor" if event.get("rank") == "s" else f"rank {event.get('rank')}"
        words = Cell("damaged checkpoint" if damage else str(event["kind"]), tone=tone)
        when = "+" + duration(float(event["t"]) - begin)
        rows.append((when, words, who, Cell(_said(event), wrap=True)))
    return table(("When", "What", "Who", ""), rows)


def _said(event: Row) -> str:
    hidden = ("v", "t", "run_id", "attempt", "rank", "kind")
    return ", ".join(
        f"{name} {value}" for name, value in event.items() if name not in hidden and value not in (None, "")
    )


def _data(run: RunRecord) -> str:
    splits = [run.data.get(name) for name in ("train", "eval")]
    rows = [
        (name, *(_count(counts, field) for counts in splits))
        for name, field in (
            ("Documents", "documents"), ("Sequences", "sequences"), ("Tokens", "tokens"),
            ("Tokens that count for the loss", "target_tokens"), ("Bytes of text", "bytes"),
        )
    ]  # fmt: skip
    rows = [row for row in rows if any(cell != "–" for cell in row[1:])]
    total = run.data.get("counts")
    left = {"duplicates": "duplicates", "bad_rows": "unreadable rows", "dropped": "documents without room"}
    counted = {words: _count(total, field) for field, words in left.items()}
    said = ", ".join(f"{count} {words}" for words, count in counted.items() if count not in ("0", "–"))
    return table(("", "Training", "Held out"), rows, numbers=(1, 2)) + (
        f'<p class="lead">Left out: {text(said)}.</p>' if said else ""
    )


def _count(counts: object, field: str) -> str:
    value = counts.get(field) if isinstance(counts, dict) else None
    return f"{value:,}" if isinstance(value, int) else "–"


def _plan(run: RunRecord) -> str:
    plan = run.plan
    if plan is None:
        return ""
    layout = f"{plan.layout}, global batch {plan.layout.global_batch_size}, recompute {plan.layout.recompute}"
    rows = [("Layout", Cell(layout, wrap=True), "")]
    for name, planned, measured in (
        ("Tokens per second", amount(plan.tokens_per_s), amount(run.typical("tokens_per_s"))),
        ("Peak memory", bytes_(_planned_memory(run)), bytes_(run.highest("memory_bytes"))),
        ("MFU", _percent(plan.mfu), _percent(run.typical("mfu"))),
        ("Hours", number(plan.hours), number(run.seconds / 3600 if run.seconds else None)),
    ):
        if planned != "–":
            rows.append((name, Cell(planned), measured))
    parts = [table(("", "Planned", "Measured"), rows)]
    if plan.ranks:
        parts_of = {
            f"stage {rank.pp_stage}": {k: v / 2**30 for k, v in asdict(rank.bytes).items()} for rank in plan.ranks
        }
        drawn = figures.bar_rows("planned-memory", "Planned memory of a rank", parts_of, "GiB")
        shown = figure("Planned memory of a rank", drawn)
        if plan.layout.pp > 1 and plan.step_seconds:
            svg = figures.embeddable(plan_pictures.timeline(plan), "schedule", "Pipeline schedule of a step")
            shown += figure("Pipeline schedule", f'<div class="paper">{svg}</div>')
        parts.append(f'<div class="charts">{shown}</div>')
    if plan.reasons:
        items = "".join(f'<li>{text(r.text)} <span class="muted">{text(r.source)}</span></li>' for r in plan.reasons)
        parts.append(f'<div class="card pad"><h3>Why</h3><ul class="facts">{items}</ul></div>')
    return "\n".join(parts)


def _planned_memory(run: RunRecord) -> float | None:
    return max((rank.bytes.total for rank in run.plan.ranks), default=None) if run.plan else None


def _signed(share: float) -> str:
    return f"{share:+.1%}".replace("-", "−")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _foot(run: RunRecord) -> str:
    return (
        f"<footer>Written by Trainwright {text(trainwright.__version__)} from the files in "
        f"<code>{text(run.folder)}</code>. Spec sha256 <code>{text(run.spec.sha256)}</code>.</footer>"
    )
