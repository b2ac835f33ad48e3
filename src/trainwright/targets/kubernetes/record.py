"""``job.json`` of a run on Kubernetes: where it was sent, its stages' objects, which were applied, and how it ended.

Who submits, moves a run to its next stage or sees its end writes it, under ``run.lock``. How the run stands is told
by the cluster; only the end is kept, because objects and pods are deleted some time after it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from trainwright.runs.folder import RunFolder, read_json, write_atomically
from trainwright.runs.state import FINAL, JobState, Phase, Reason
from trainwright.targets.kubernetes.watch import Wanted


@dataclass(frozen=True)
class StageRecord:
    """One stage's object. ``holds_all``: its pods are those of every stage, ``parts`` in order."""

    name: str
    file: str
    api_version: str
    kind: str
    object_name: str
    holds_all: bool = False
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobRecord:
    """``at`` is the time of the last submit, ``first_attempt`` the number of the first attempt since then.

    ``price``: US dollars an hour and node by the plan; None where it names no cost.
    """

    target: str
    context: str
    namespace: str
    name: str
    stages: tuple[StageRecord, ...]
    at: float
    first_attempt: int = 1
    applied: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()
    final: JobState | None = None
    price: float | None = None

    @property
    def main(self) -> StageRecord:
        """The stage whose object gives the run its reference."""
        return next((one for one in self.stages if one.name == "train" or one.holds_all), self.stages[-1])

    @property
    def reached(self) -> int:
        """The last attempt that is known of."""
        return self.final.attempt if self.final is not None else self.first_attempt

    def with_applied(self, stage: str) -> JobRecord:
        """With one more stage submitted."""
        return replace(self, applied=tuple(dict.fromkeys([*self.applied, stage])))

    def to_dict(self) -> dict[str, Any]:
        """Content of ``job.json``."""
        values = asdict(self)
        return {"v": 1, **values, "final": self.final.to_dict() if self.final else None}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> JobRecord | None:
        """Read what ``to_dict`` wrote; None for anything else."""
        try:
            stages = tuple(StageRecord(**{**one, "parts": tuple(one["parts"])}) for one in values["stages"])
            found = cls(
                str(values["target"]), str(values["context"]), str(values["namespace"]), str(values["name"]), stages,
                float(values["at"]), int(values["first_attempt"]), tuple(map(str, values["applied"])),
                tuple(map(str, values["completed"])),
                _state(values.get("final")), values.get("price"),
            )  # fmt: skip
            return found if stages else None
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def node_price(run: RunFolder) -> float | None:
    """US dollars an hour and node, by the plan; None where it names no cost."""
    plan = run.plan()
    return plan.cost / plan.hours / run.spec().compute.nodes if plan.cost and plan.hours else None


def wanted(record: JobRecord) -> Wanted:
    """What a watch has to look for."""
    return Wanted(record.name, tuple((one.api_version, one.kind, one.object_name) for one in record.stages))


def read_record(run: RunFolder) -> JobRecord | None:
    """The record, or None when there is none that can be read."""
    values = read_json(run.job_file)
    return JobRecord.from_dict(values) if values is not None else None


def write_record(run: RunFolder, record: JobRecord) -> None:
    """Replace the record. Raises OSError when the disk is full or read-only."""
    write_atomically(run.job_file, json.dumps(record.to_dict(), indent=2) + "\n")


def _state(values: dict[str, Any] | None) -> JobState | None:
    if values is None or values.get("phase") not in FINAL & set(get_args(Phase)):
        return None
    reason = values.get("reason")
    told = None
    if reason is not None:
        told = Reason(
            str(reason["id"]), reason["class"], str(reason["sentence"]), str(reason["next_step"]), reason["retry"],
            str(reason.get("raw", "")),
        )  # fmt: skip
    return JobState(**{**values, "reason": told})
