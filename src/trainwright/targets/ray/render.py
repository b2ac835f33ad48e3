"""The bundle of a run for a running Ray: the request that starts its job, with the resources of each stage.

Pure. Numbers come from the plan: a worker a node, holding the accelerators of the ranks that it starts.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from trainwright.errors import InputError, Problem
from trainwright.facts import versions as facts
from trainwright.planner.plan import Plan
from trainwright.runs import identity
from trainwright.runs.fabric import NETWORK_VARIABLE
from trainwright.runs.folder import RUN_DIR_VARIABLE
from trainwright.spec.model import RunSpec
from trainwright.spec.paths import is_remote
from trainwright.spec.site import RaySite, Site
from trainwright.targets.bundle import Bundle, BundleFile, carried, carried_site
from trainwright.targets.kubernetes.run import Run, node_of

NAME = "ray"
REQUEST = "job.json"
RUN = "trainwright.run"  # key of a job's metadata
_MODULE = "trainwright.targets.ray.driver"


def render(plan: Plan, spec: RunSpec, site: Site, versions: Mapping[str, str], run_id: str | None = None) -> Bundle:
    """The bundle; ``run_id`` replaces the one that follows from the content. InputError with every contradiction."""
    for name in versions:
        facts.versions(name)
    chosen = {NAME: facts.choose(NAME, versions.get(NAME))}
    run_id = run_id or identity.run_id(spec, plan.layout, chosen)
    _check(spec)
    run = Run(run_id, plan, spec, site, chosen, f"{spec.storage}/{run_id}", node_of(spec, site))
    place = site.ray or RaySite()
    request = json.dumps(_request(run, place), indent=2, ensure_ascii=False) + "\n"
    site_file = carried_site(site)
    where = {"run_dir": run.root, **({"address": place.address} if place.address else {})}
    return Bundle(
        run_id=run_id, target=NAME, versions=chosen, where=where,
        files=(BundleFile(REQUEST, request, 1), site_file, *carried(spec, plan)),
        command=(place.python, "-P", "-m", _MODULE, "drive"),
    )  # fmt: skip


def demand(request: Mapping[str, Any], stage: str) -> tuple[int, dict[str, float]]:
    """How many workers a stage has, and what each of them holds, as Ray names it; read from the rendered request."""
    words = shlex.split(str(request["entrypoint"]))
    given = {name: value for name, value in pairwise(words) if name.startswith("--")}
    if stage != "train":
        cpus, gpus = (float(part) for part in given.get(f"--{stage}", "1,0").split(","))
        return 1, {"CPU": cpus, **({"GPU": gpus} if gpus else {})}
    held = {"CPU": float(given["--cpus"]), **({"GPU": float(given["--gpus"])} if "--gpus" in given else {})}
    name, _, count = given.get("--resource", "").partition("=")
    return int(given["--nodes"]), {**held, **({name: float(count)} if name else {})}


def _request(run: Run, site: RaySite) -> dict[str, Any]:
    spec = run.spec
    environment = {
        **spec.env,
        RUN_DIR_VARIABLE: run.root,
        "PYTHONUNBUFFERED": "1",
        "RAY_DEDUP_LOGS": "0",  # equal lines of several ranks are several lines
        "RAY_JOB_STOP_WAIT_TIME_S": str(run.grace_seconds()),
        "RAY_TRAIN_V2_ENABLED": "1",
    }
    if run.on_efa and not run.is_neuron:
        environment.setdefault(NETWORK_VARIABLE, "efa")  # ends early, with the reason, when NCCL does not use it
    return {
        "entrypoint": _entrypoint(run, site),
        "runtime_env": {"env_vars": environment},
        "metadata": {RUN: run.id, "trainwright.name": spec.name},
    }


def _entrypoint(run: Run, site: RaySite) -> str:
    """Given to a shell. ``exec``: the signal of a stopped job must reach Python."""
    words = ["exec", shlex.quote(site.python), "-P", "-m", _MODULE, "drive", "--config", ".", "--stages"]
    words += [",".join(run.stages), "--nodes", str(run.nodes), "--cpus", str(run.processes)]
    for name, count in _devices(run, run.processes).items():
        words += ["--gpus", str(count)] if name == "GPU" else ["--resource", f"{name}={count}"]
    if "prepare" in run.stages:
        words += ["--prepare", f"{run.preparing().cpu},0"]
    answers = run.spec.evaluate.tasks or run.spec.evaluate.samples
    gpus = _devices(run, 1).get("GPU", 0) if answers else 0
    return " ".join([*words, "--finish", f"1,{gpus}", "--failures", str(run.retries)])


def _devices(run: Run, ranks: int) -> dict[str, int]:
    """What a worker with so many ranks holds. A rank of Neuron is one core."""
    if run.node is None:
        return {}
    return {"neuron_cores": ranks} if run.is_neuron else {"GPU": ranks}


def _check(spec: RunSpec) -> None:
    problems: list[Problem] = []
    way_out = "name a folder that all of Ray's nodes see"
    if spec.storage is None:
        problems.append(
            Problem("", field="storage", what="is missing: Ray's nodes meet in a folder", instead=way_out)
        )
    elif is_remote(spec.storage) or not spec.storage.startswith("/"):
        problems.append(
            Problem("", field="storage", what=f"is {spec.storage}, but Ray's nodes meet in a folder", instead=way_out)
        )
    for name, reference in spec.secrets.items():
        if reference.kubernetes is not None:
            what = "is a Kubernetes Secret, which Ray's nodes do not read"
            instead = "name an environment variable (env) or a file of Ray's nodes"
            problems.append(Problem("", field=f"secrets.{name}", what=what, instead=instead))
    if problems:
        raise InputError(problems)
