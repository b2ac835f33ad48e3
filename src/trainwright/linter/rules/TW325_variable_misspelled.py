"""TW325: a variable that is almost one that NCCL, PyTorch, libfabric or Neuron reads."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob

_PREFIXES = ("NCCL_", "TORCH_NCCL_", "FI_EFA_", "NEURON_RT_", "NEURON_CC_", "NEURON_COMPILE_")


def _names(job: TrainingJob) -> set[str]:
    """All variables that the job sets, in containers and scripts."""
    names: set[str] = set()
    for container in job.containers():
        names |= set(container.env)
    for launch in job.launches:
        names |= set(launch.launch.variables)
    return names


def _same(name: str, right: str) -> int:
    """Letters that two names begin with in common."""
    pairs = zip(name, right, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(name), len(right)))


def _few(name: str, right: str) -> bool:
    """Whether one becomes the other by one or two letters in one place."""
    prefix = _same(name, right)
    suffix = _same(name[prefix:][::-1], right[prefix:][::-1])
    return max(len(name), len(right)) - prefix - suffix <= 2


class VariableMisspelled(JobRule):
    """Unknown variables are ignored without a word."""

    id = "TW325"
    severity = "warning"
    category = "network"
    summary = "a variable that is almost one that NCCL, PyTorch, libfabric or Neuron reads"
    evidence = "verified"
    source = (
        "NVIDIA/nccl 2.30.7 (every NCCL_PARAM and getenv), PyTorch 2.15, ofiwg/libfabric prov/efa, AWS "
        "Neuron documentation"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Names that are nearly right."""
        known = read_rows("env")
        seen: set[tuple[str, int]] = set()
        for name in sorted(_names(subject)):
            if name in known or not name.startswith(_PREFIXES) or len(name) < 10:
                continue
            close = [
                right
                for right in get_close_matches(name, list(known), 3, 0.9)
                if right.startswith(_PREFIXES) and _few(name, right) and known[right].get("reader")
            ]
            for variable in subject.env_uses(name) if close else ():
                if (name, variable.span.start) not in seen:
                    seen.add((name, variable.span.start))
                    yield self.hit(variable, f"nothing reads {name}", close[0])
