"""Everything a report says about one run, read from the files of its folder, whichever of them exist.

Takes a RunFolder, gives a frozen value; a run that failed in its first second is read as well as a finished one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.checkpoints.format import ManifestError, open_checkpoint, step_folders, step_of
from trainwright.errors import TrainwrightError
from trainwright.planner.plan import Plan
from trainwright.reports.evaluation_file import read_evaluation
from trainwright.runs.events import SUPERVISOR, read_events
from trainwright.runs.folder import RunFolder, read_json
from trainwright.runs.measurements import number, read_metrics
from trainwright.spec.model import RunSpec
from trainwright.spec.write import spec_to_yaml

Row = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, or how far it is. ``tone``: ``good``, ``bad``, ``warn`` or ``plain``."""

    word: str
    tone: str
    sentence: str = ""


@dataclass(frozen=True)
class RunRecord:
    """One run. ``steps`` and ``evals`` hold the last measurement of each step, in order."""

    run_id: str
    folder: Path
    spec: RunSpec
    spec_text: str
    plan: Plan | None
    steps: tuple[Row, ...]
    evals: tuple[Row, ...]
    events: tuple[Row, ...]
    evaluation: Row
    data: Row
    checkpoints: tuple[Row, ...]

    @property
    def total_steps(self) -> int | None:
        """Steps that the run is to take, where that is known."""
        said = [event["steps"] for event in self.events if isinstance(event.get("steps"), int)]
        if said:
            return int(said[-1])
        return int(self.spec.duration.value) if self.spec.duration.unit == "steps" else None

    @property
    def last_step(self) -> int:
        """Steps taken."""
        return int(self.steps[-1]["step"]) if self.steps else 0

    @property
    def baseline(self) -> Row | None:
        """Held-out evaluation before the first step."""
        return self.evals[0] if self.evals and self.evals[0].get("step") == 0 else None

    @property
    def final(self) -> Row | None:
        """Held-out evaluation of the model that was kept: at the step that was chosen, else the last one."""
        chosen = [row for row in self.evals if row.get("step") == self.evaluation.get("step")]
        later = [row for row in self.evals if row.get("step") != 0]
        found = chosen or later
        return found[-1] if found else None

    @property
    def seconds(self) -> float | None:
        """Wall time from the first event to the last one; what is done to a finished run by hand is not counted."""
        own = [event for event in self.events if event.get("rank") == SUPERVISOR] or self.events
        times = [float(event["t"]) for event in own]
        return max(times) - min(times) if len(times) > 1 else None

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return sum(event["kind"] == "restarted" for event in self.events)

    def numbers(self, field: str) -> list[float | None]:
        """One field over all steps; None where it was not measured."""
        return [number(row.get(field)) for row in self.steps]

    def typical(self, field: str) -> float | None:
        """Median of a field over the steps after the first: that one also warms up."""
        known = sorted(value for value in self.numbers(field)[1:] or self.numbers(field) if value is not None)
        return known[len(known) // 2] if known else None

    def highest(self, field: str) -> float | None:
        """Largest value of a field."""
        return max((value for value in self.numbers(field) if value is not None), default=None)

    def outcome(self) -> Outcome:
        """How it ended, from what was written last."""
        gate = self.evaluation["gate"]
        if gate.get("holds") is False:
            return Outcome("gate refused", "warn", str(gate.get("sentence", "")))
        ends = [event for event in self.events if event["kind"] in ("finished", "failed", "restarted", "started")]
        last = ends[-1] if ends else {}
        if last.get("kind") == "finished" and last.get("phase"):
            phase = str(last["phase"])
            tone = {"SUCCEEDED": "good", "FAILED": "bad"}.get(phase, "plain")
            return Outcome(phase.lower(), tone, self._last_failure() if tone == "bad" else "")
        if last.get("kind") == "failed":
            return Outcome("failed", "bad", self._last_failure())
        if self.evaluation.get("step") is not None or (self.total_steps and self.last_step >= self.total_steps):
            return Outcome("finished", "good")
        total = f" of {self.total_steps:,}" if self.total_steps else ""
        return Outcome("unfinished", "plain", f"step {self.last_step:,}{total}")

    def _last_failure(self) -> str:
        failures = [event for event in self.events if event["kind"] == "failed"]
        if not failures:
            return ""
        event = failures[-1]
        said = event.get("exception") or event.get("line") or f"exit code {event.get('code')}"
        where = f"rank {event['failing_rank']}: " if isinstance(event.get("failing_rank"), int) else ""
        return f"{where}{said}"


def read_run(folder: RunFolder) -> RunRecord:
    """Read a run's folder. Only the spec must be there; InputError when it is not."""
    spec = folder.spec()
    metrics = list(read_metrics(folder.metrics))
    return RunRecord(
        run_id=folder.run_id,
        folder=folder.root,
        spec=spec,
        spec_text=spec_to_yaml(spec),
        plan=_plan(folder),
        steps=_by_step(metrics, "step"),
        evals=_by_step(metrics, "eval"),
        events=tuple(read_events(folder.events)),
        evaluation=read_evaluation(folder.evaluation),
        data=read_json(folder.data) or {},
        checkpoints=_checkpoints(folder),
    )


def _by_step(metrics: list[Row], kind: str) -> tuple[Row, ...]:
    """The last record of each step: steps after a checkpoint are taken again when a run resumes from it."""
    found = {row["step"]: row for row in metrics if row["kind"] == kind}
    return tuple(found[step] for step in sorted(found))


def _plan(folder: RunFolder) -> Plan | None:
    try:
        return folder.plan()
    except TrainwrightError:
        return None


def _checkpoints(folder: RunFolder) -> tuple[Row, ...]:
    rows: list[Row] = []
    for path in reversed(step_folders(folder.checkpoints)):
        try:
            manifest = open_checkpoint(path).manifest
        except ManifestError as error:
            rows.append({"step": step_of(path.name), "damage": str(error)})
            continue
        size = sum(record.bytes for record in manifest.files)
        rows.append({"step": manifest.step, "tokens": manifest.tokens, "bytes": size})
    return tuple(rows)


def stages(events: tuple[Row, ...]) -> list[tuple[str, float, float]]:
    """What ran from when to when, in seconds since the epoch: the supervisor's stages, or each attempt of rank 0."""
    own = [event for event in events if event.get("rank") == SUPERVISOR and event["kind"] in ("started", "finished")]
    own = own or [event for event in events if event.get("rank") == 0 and event["kind"] in ("started", "finished")]
    ends = [float(event["t"]) for event in own[1:]] + [float(events[-1]["t"])] if own else []
    return [
        (str(event.get("stage") or f"attempt {event.get('attempt')}"), float(event["t"]), end)
        for event, end in zip(own, ends, strict=True)
        if event["kind"] == "started"
    ]
