"""Runs of the real targets on the bed's fake nodes: rendered, submitted and watched as a user's, pods only pretend.

What a pod pretends (how long it runs, how it ends) is said by annotations, put in by ``target.overrides`` as a user
would put them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes_bed import PATIENCE, TOLERATIONS, Bed
from kubernetes_specs import own_script, plan_of, site_of, spec_of

from trainwright import targets
from trainwright.runs.state import JobRef, JobState
from trainwright.targets.contract import Target

MARK = "localhost/nothing:1"


@dataclass
class Run:
    """A submitted run and what can be asked of it."""

    target: Target
    ref: JobRef
    bundle: Path

    @property
    def name(self) -> str:
        """Name of its objects."""
        return self.target.folder(self.ref).run_id.replace(".", "-")

    def status(self) -> JobState:
        """Where it stands now."""
        return self.target.status(self.ref)

    def until(self, holds: Callable[[JobState], object], what: str) -> JobState:
        """Look until a state fits. AssertionError shows the last one."""
        end = time.monotonic() + PATIENCE
        while True:
            state = self.status()
            if holds(state):
                return state
            assert time.monotonic() < end, f"waited {PATIENCE} s in vain for {what}; it is {state}"
            time.sleep(0.4)

    def until_phase(self, *phases: str) -> JobState:
        """Look until it is in one of these phases."""
        return self.until(lambda state: state.phase in phases, " or ".join(phases))

    def until_reason(self, id_: str) -> JobState:
        """Look until the reason is this one."""
        return self.until(lambda s: s.reason is not None and s.reason.id == id_, f"the reason {id_}")


class Runs:
    """Starts runs in one namespace of the bed."""

    def __init__(self, bed: Bed, namespace: str, folder: Path):
        self.bed, self.namespace, self.folder = bed, namespace, folder
        self._count = 0
        bed.volume("fsx", namespace)

    def render(
        self, kind: str = "jobset", *, pods: Mapping[str, Mapping[str, str]] | None = None, gpus: bool = False,
        pod: Mapping[str, Any] | None = None, site: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Any] | None = None, **fields: Any,
    ) -> Path:  # fmt: skip
        """A bundle of two nodes. ``pods``: stage → annotations; ``pod``: a patch on the pods of training."""
        self._count += 1
        patch: dict[str, Any] = {
            stage: {"metadata": {"annotations": dict(annotations)}} for stage, annotations in (pods or {}).items()
        }
        if pod:
            patch.setdefault("train", {})["spec"] = dict(pod)
        named = {
            "name": f"run{self._count}",
            "target": {"name": kind, "overrides": {"pods": patch, **(overrides or {})}},
        }
        spec = (spec_of if gpus else own_script)(**{**named, **fields})
        given: dict[str, Any] = {"namespace": self.namespace, "queue": None, "context": None, **(site or {})}
        if gpus:
            given.setdefault("tolerations", TOLERATIONS)
        plan = plan_of(spec, 16 if gpus else 2, cost=20.0)
        bundle = targets.get(kind).render(plan, spec, site_of(**given), {})
        folder = self.folder / f"bundle-{self._count}"
        bundle.write(folder)
        return folder

    def submit(self, bundle: Path, **options: Any) -> Run:
        """Submit a bundle as a user does."""
        from trainwright.targets.bundle import Bundle

        target = targets.get(Bundle.read(bundle).target)
        return Run(target, target.submit(bundle, runs=self.folder / "runs", **options), bundle)

    def start(self, kind: str = "jobset", **fields: Any) -> Run:
        """Render and submit."""
        return self.submit(self.render(kind, **fields))
