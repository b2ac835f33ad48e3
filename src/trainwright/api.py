"""The public Python API: one function for each verb, with the same values as the command line.

Each function imports its room when it is called, so that using one never pays for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.linter.finding import Finding
    from trainwright.planner.plan import Plan
    from trainwright.runs.state import JobRef, JobState
    from trainwright.spec.load import Loaded
    from trainwright.targets.bundle import Bundle
    from trainwright.targets.contract import Target


def load(path: str | Path, overrides: Iterable[str] = (), site: str | Path | None = None) -> Loaded:
    """Read a spec and the site under it. Raises InputError with every problem at its line and column."""
    from trainwright.spec.load import load as load_spec

    return load_spec(path, overrides, site)


def plan(loaded: Loaded) -> Plan:
    """Decide the layout and what follows from it. Raises InputError for a layout that cannot be."""
    from trainwright.planner.explicit import plan_local
    from trainwright.planner.for_spec import plan_spec

    return plan_local(loaded) if loaded.spec.compute.instance == "local" else plan_spec(loaded)


def render(
    loaded: Loaded, plan: Plan, target: str | None = None, versions: Mapping[str, str] | None = None
) -> Bundle:
    """The native files of a target. Pure: no network, nothing written, the same input gives the same bytes."""
    from trainwright import targets
    from trainwright.planner.explicit import check_plan

    check_plan(plan, loaded.spec, "plan")
    name = target or loaded.spec.target.name
    return targets.get(name).render(plan, loaded.spec, loaded.site, dict(versions or {}))


def submit(bundle: str | Path, *, fresh: bool = False, runs: Path | None = None) -> JobRef:
    """Start a bundle. The same content is the same run: live is left alone, unfinished resumes, finished is told."""
    from trainwright import targets
    from trainwright.targets.bundle import Bundle

    folder = Path(bundle)
    return targets.get(Bundle.read(folder).target).submit(folder, fresh=fresh, runs=runs)


def start(bundle: Bundle, *, fresh: bool = False, runs: Path | None = None) -> tuple[Target, JobRef]:
    """Start a rendered bundle without keeping a folder of it: the run's own folder keeps what was submitted."""
    from tempfile import TemporaryDirectory

    from trainwright import targets

    target = targets.get(bundle.target)
    with TemporaryDirectory() as scratch:
        bundle.write(Path(scratch) / "bundle")
        return target, target.submit(Path(scratch) / "bundle", fresh=fresh, runs=runs)


def status(run: JobRef) -> JobState:
    """Where a run stands, and why it waits or failed."""
    return _target_of(run).status(run)


def events(run: JobRef) -> list[dict[str, Any]]:
    """What happened to a run, in order of time."""
    return _target_of(run).events(run)


def cancel(run: JobRef) -> JobState:
    """Stop a run; training saves its state first."""
    return _target_of(run).cancel(run)


def resume(run: JobRef, overrides: Iterable[str] = ()) -> JobRef:
    """Go on from the newest good checkpoint, with the few changes that keep the trajectory meaningful."""
    from tempfile import TemporaryDirectory

    from trainwright.errors import InputError
    from trainwright.runs.resume_rules import refusals

    target, overrides = _target_of(run), tuple(overrides)
    if not overrides:
        return target.resume(run)
    folder = target.folder(run)
    loaded = load(folder.spec_file, overrides)
    refused = refusals(folder.spec(), loaded.spec)
    if refused:
        raise InputError([refusal.problem(str(folder.spec_file)) for refusal in refused])
    with TemporaryDirectory() as scratch:
        bundle = Path(scratch) / "bundle"
        render(loaded, plan(loaded)).write(bundle)
        return target.resume(run, bundle)


def schema(kind: str = "run") -> dict[str, Any]:
    """JSON Schema of the run spec (``run``), of the site file (``site``) or of a plan (``plan``)."""
    from trainwright.planner.schema import plan_schema
    from trainwright.spec.schema import json_schema

    return plan_schema() if kind == "plan" else json_schema(kind)


def lint(paths: Iterable[str | Path], **options: Any) -> list[Finding]:
    """Findings about manifests, scripts and configs. See ``trainwright.linter.lint`` for the options."""
    from trainwright.linter import lint as lint_paths

    return lint_paths(paths, **options)


def _target_of(run: JobRef) -> Target:
    from trainwright import targets

    return targets.for_scheme(run.scheme)
