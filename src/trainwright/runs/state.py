"""JobState: where a run stands, in the same words on every target; and JobRef, the name of a submitted job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import quote, unquote

from trainwright.errors import InputError, Problem

Phase = Literal["PENDING", "STARTING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]
FINAL: frozenset[str] = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
Retry = Literal["none", "same-node-ok", "other-node", "after-wait"]
ReasonClass = Literal[
    "quota", "capacity", "constraint", "image", "volume", "config", "permission", "dependency", "priority",
    "user-error", "oom", "hardware", "node-lost", "network", "timeout", "preempted", "unknown",
]  # fmt: skip


def ended(text: str) -> str:
    """``text`` as a sentence: with one full stop, unless it ends in another way."""
    text = text.rstrip()
    return text if not text or text.endswith(("!", "?", "…")) else text.rstrip(".") + "."


@dataclass(frozen=True)
class Reason:
    """Why a run waits or failed, in one sentence, and what to do. ``raw`` is the message it was read from."""

    id: str
    class_: ReasonClass
    sentence: str
    next_step: str
    retry: Retry = "none"
    raw: str = ""

    @classmethod
    def told(
        cls, id_: str, class_: ReasonClass, text: str, next_step: str = "", retry: Retry = "none", raw: str = ""
    ) -> Reason:
        """A reason in our own words; what they were put together from may bring an end of its own, or none."""
        return cls(id_, class_, ended(text), next_step, retry, raw)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values; ``class_`` is written as ``class``."""
        values = asdict(self)
        values["class"] = values.pop("class_")
        return values


@dataclass(frozen=True)
class JobState:
    """Where a run stands. ``since`` is seconds since the epoch, ``stage`` what runs or waits (prepare, train …).

    ``cost`` is US dollars so far, by the plan's price and the nodes' time; None where either is not known.
    """

    phase: Phase
    reason: Reason | None = None
    rank: int | None = None
    node: str | None = None
    attempt: int = 0
    since: float | None = None
    stage: str | None = None
    cost: float | None = None

    @property
    def final(self) -> bool:
        """True when nothing more will happen by itself."""
        return self.phase in FINAL

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values under the names of the contract."""
        return {**asdict(self), "reason": self.reason.to_dict() if self.reason else None}


@dataclass(frozen=True)
class JobRef:
    """Name of a submitted job, such as ``local://run``, ``slurm://cluster/1234``, ``k8s://context/ns/MPIJob/name``."""

    scheme: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.scheme}://" + "/".join(quote(part, safe="") for part in self.parts)

    @classmethod
    def parse(cls, text: str) -> JobRef:
        """Read what ``str`` wrote; anything else is an InputError."""
        scheme, separator, rest = text.partition("://")
        if not separator or not scheme.isalnum() or not rest:
            raise InputError(
                [Problem(text, what="is no job reference", instead="write for example slurm://cluster/1234")]
            )
        return cls(scheme, tuple(unquote(part) for part in rest.split("/")))
