"""What a person wants to know when a run has ended: what came out, where it is, and the one command to try next."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from trainwright.errors import SystemUnreachable, TrainwrightError
from trainwright.reports.evaluation_file import read_evaluation
from trainwright.reports.words import duration, number
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder
from trainwright.runs.measurements import read_metrics
from trainwright.runs.state import JobState

_FEW_STEPS = 10
_FEW_TOKENS = 1000


def summary(folder: RunFolder, state: JobState) -> dict[str, Any]:
    """The end of a run as plain data. Paths that do not exist are None."""
    evaluation = read_evaluation(folder.evaluation)
    metrics = _metrics(folder)
    evals = [record for record in metrics if record["kind"] == "eval"]
    steps = [record for record in metrics if record["kind"] == "step"]
    return {
        "run_id": folder.run_id,
        "state": state.to_dict(),
        "steps": steps[-1].get("step") if steps else None,
        "loss": steps[-1].get("loss") if steps else None,
        "baseline": evals[0].get("eval_loss") if evals else None,
        "eval_loss": evals[-1].get("eval_loss") if len(evals) > 1 else None,
        "eval_tokens": evals[-1].get("eval_tokens") if len(evals) > 1 else None,
        "seconds": _seconds(folder),
        "samples": evaluation["samples"],
        "registered": evaluation["registered"],
        "model": _existing(folder.export),
        "report": _existing(folder.report),
        "logs": _existing(folder.logs),
        "folder": str(folder.root),
    }


def summary_lines(folder: RunFolder, state: JobState) -> list[str]:
    """The same for a person; the last line is the command to try next."""
    told = summary(folder, state)
    lines = [_headline(told, state)]
    if told["baseline"] is not None and told["eval_loss"] is not None:
        lines.append(f"held-out loss {number(told['baseline'])} before, {number(told['eval_loss'])} after")
    lines += _doubts(folder, told)
    if told["samples"]:
        lines += ["", *_sample(told["samples"][0]), ""]
    if state.phase == "SUCCEEDED":
        where = told["registered"] or told["model"]
        if where:
            lines.append(f"model   {_short(where['path'] if isinstance(where, dict) else where)}")
    elif state.reason is not None:
        lines.append(state.reason.sentence)
    for name, key in (("report", "report"), ("logs", "logs")):
        if told[key]:
            lines.append(f"{name:<7} {_short(told[key])}")
    lines.append(f"next    {_next(folder, state, told)}")
    return lines


def _doubts(folder: RunFolder, told: dict[str, Any]) -> list[str]:
    """What a small data set did without an error: a person should know before trusting the result."""
    found = []
    try:
        duration_ = folder.spec().duration
    except TrainwrightError:
        return []
    if told["steps"] and told["steps"] < _FEW_STEPS and duration_.unit == "epochs":
        steps = "one step" if told["steps"] == 1 else f"{told['steps']} steps"
        found.append(
            f"note    {duration_} of this data: {steps}; a smaller global_batch_size or more epochs make more"
        )
    tokens = told["eval_tokens"]
    if tokens and tokens < _FEW_TOKENS:
        found.append(f"note    the held-out loss stands on {tokens} tokens only; data.eval_fraction holds out more")
    return found


def _headline(told: dict[str, Any], state: JobState) -> str:
    steps = f" after {told['steps']} steps" if told["steps"] else ""
    took = f" in {duration(told['seconds'])}" if told["seconds"] else ""
    return f"{told['run_id']} {state.phase}{steps}{took}"


def _sample(sample: dict[str, Any]) -> list[str]:
    prompt, answer = str(sample.get("prompt", "")), str(sample.get("text", sample.get("completion", "")))
    text = (prompt + "▸" + answer.removeprefix(prompt)).splitlines()
    return ["sample (▸ marks where the model goes on)", *(f"    {line}" for line in text[:12])]


def _next(folder: RunFolder, state: JobState, told: dict[str, Any]) -> str:
    if state.phase == "SUCCEEDED" and told["model"]:
        return f"trainwright sample {folder.run_id} {_prompt(told)}"
    if state.phase == "SUCCEEDED":
        return f"trainwright report {folder.run_id}"
    if state.reason is not None and state.reason.next_step:
        return state.reason.next_step
    if state.phase == "CANCELLED":
        return f"trainwright resume {folder.run_id}"
    return f"trainwright logs {folder.run_id}"


def _prompt(told: dict[str, Any]) -> str:
    """A prompt of the run's own, for a shell; else one for any text."""
    own = next((str(s["prompt"]) for s in told["samples"] if isinstance(s, dict) and s.get("prompt")), "")
    return shlex.quote(own if own.isprintable() and 0 < len(own) <= 60 else "Once upon a time")


def _metrics(folder: RunFolder) -> list[dict[str, Any]]:
    try:
        return list(read_metrics(folder.metrics))
    except SystemUnreachable:  # how the run ended is told all the same
        return []


def _seconds(folder: RunFolder) -> float | None:
    times = [float(event["t"]) for event in read_events(folder.events) if isinstance(event.get("t"), int | float)]
    return times[-1] - times[0] if len(times) > 1 else None


def _existing(path: Path) -> str | None:
    return str(path) if path.exists() else None


def _short(path: str) -> str:
    """Relative to where the person stands, when that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(path) and not relative.startswith("..") else path
