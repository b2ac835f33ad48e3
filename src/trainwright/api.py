"""The public Python API: one function for each verb, with the same values as the command line.

Each function imports its room when it is called, so that using one never pays for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.errors import Problem
    from trainwright.linter.finding import Finding
    from trainwright.planner.plan import Plan
    from trainwright.runs.state import JobRef, JobState
    from trainwright.spec.load import Loaded
    from trainwright.targets.bundle import Bundle
    from trainwright.targets.contract import Target
    from trainwright.targets.doctor import Check


def load(path: str | Path, overrides: Iterable[str] = (), site: str | Path | None = None) -> Loaded:
    """Read a spec and the site under it. Raises InputError with every problem at its line and column."""
    from trainwright.spec.load import load as load_spec

    return load_spec(path, overrides, site)


def plan(loaded: Loaded) -> Plan:
    """Decide the layout and what follows from it. Raises InputError for a layout that cannot be."""
    from trainwright.planner.explicit import plan_local
    from trainwright.planner.for_spec import plan_spec

    return plan_local(loaded) if loaded.spec.compute.instance == "local" else plan_spec(loaded)


def missing(loaded: Loaded, bundle: Bundle, *, fresh: bool = False, runs: Path | None = None) -> list[Problem]:
    """Paths of a spec that a run of its bundle needs and that lead nowhere, each at its line and column.

    None for targets elsewhere, and for a run that has its data already: it is told about or goes on.
    """
    from trainwright.runs.folder import RunFolder, default_runs
    from trainwright.spec.present import missing as missing_here

    place = Path(runs or loaded.spec.storage or default_runs()).absolute()
    if bundle.target != "local" or (not fresh and RunFolder(place / bundle.run_id).data.exists()):
        return []
    return missing_here(loaded)


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


def check(bundle: str | Path) -> list[str]:
    """Let the scheduler check a bundle without effect (``--dry-run=server``). Raises what it refuses."""
    from trainwright import targets
    from trainwright.errors import AnswerNo
    from trainwright.targets.bundle import Bundle

    folder = Path(bundle)
    name = Bundle.read(folder).target
    ask = getattr(targets.get(name), "check", None)
    if ask is None:
        raise AnswerNo(f"target {name} has no server that could check a bundle", "trainwright lint checks it here")
    said: list[str] = ask(folder)
    return said


def doctor(
    loaded: Loaded | None = None,
    target: str | None = None,
    versions: Mapping[str, str] | None = None,
    *,
    site: str | Path | None = None,
) -> list[Check]:
    """What a cluster has and lacks, for a run or at all; each line with its fix. Only reads."""
    from trainwright import targets
    from trainwright.errors import AnswerNo, InputError, Problem
    from trainwright.spec.load import load_site
    from trainwright.spec.site import Site

    name = target or (loaded.spec.target.name if loaded is not None else None)
    if name is None:
        instead = f"--target names one of {', '.join(targets.REGISTRY)}, or give a spec"
        raise InputError([Problem("doctor", field="target", what="is not named", instead=instead)])
    ask = getattr(targets.get(name), "doctor", None)
    if ask is None:
        raise AnswerNo(f"target {name} is this machine: there is no cluster to look at", "trainwright plan shows it")
    if loaded is not None:
        place, bundle = loaded.site, render(loaded, plan(loaded), name, versions)
    else:
        beside = Path("site.yaml")
        place = load_site(site) if site else load_site(beside) if beside.is_file() else Site()
        bundle = None
    checks: list[Check] = ask(bundle, place)
    return checks


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
