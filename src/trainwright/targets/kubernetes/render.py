"""From a plan, a spec and a site to the bundle of one kind.

Pure, but for two files that are part of what the spec says: the user's own script, which is carried when no claim
holds it, and the file of the user's own machines.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.facts import versions as facts
from trainwright.planner.plan import Plan
from trainwright.runs import identity
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.targets.bundle import Bundle, BundleFile, carried, carried_site
from trainwright.targets.kubernetes import config, overrides, pods
from trainwright.targets.kubernetes.manifest import documents, without_none
from trainwright.targets.kubernetes.run import Run, node_of, root_of

#: name of the target → its module: COMPONENTS (whose versions matter), KIND (of the training object), files(run)
KINDS = ("job", "jobset", "mpijob", "trainjob", "rayjob", "volcano", "pytorchjob")


def render(
    kind: str, plan: Plan, spec: RunSpec, site: Site, versions: Mapping[str, str], *, run_id: str | None = None
) -> Bundle:
    """The bundle of a run for one kind; ``run_id`` replaces the one that follows from the content.

    InputError with every contradiction between spec, site and kind.
    """
    module = importlib.import_module(f"trainwright.targets.kubernetes.{kind}")
    for name in versions:
        facts.versions(name)  # a name that nobody knows is a mistake, not a version of something else
    chosen = {name: facts.choose(name, versions.get(name)) for name in module.COMPONENTS}
    run_id = run_id or identity.run_id(spec, plan.layout, chosen)
    root, node = root_of(run_id, spec, site), node_of(spec, site)
    run = Run(run_id, plan, spec, site, chosen, root, node)
    run = Run(run_id, plan, spec, site, chosen, root, node, _own_script(run))
    own = carried(spec, plan)
    config_map = config.config_map(run, {file.path: file.text for file in own})
    objects = {"config.yaml": [*([config.claim(run)] if run.makes_claim else []), config_map]}
    objects |= module.files(run)
    # names that the kind itself has read are no patches
    read = getattr(module, "OVERRIDES", ())
    patches = {name: patch for name, patch in spec.target.overrides.items() if name not in read}
    objects = overrides.apply(patches, objects, chosen["kubernetes"])
    heading = _heading(kind, run)
    files = [
        BundleFile(path, documents(found, heading if order > 1 else ""), order)
        for order, (path, found) in enumerate(objects.items(), 1)
    ]
    if kind == "rayjob":  # beside what is submitted, the cluster that stays
        files += [BundleFile(path, documents(found, heading)) for path, found in module.carried(run).items()]
    where = {
        "context": run.cluster.context,
        "namespace": run.cluster.namespace,
        "name": run.name,
        "kind": module.KIND,
        "run_dir": run.root,
        "queue": run.cluster.queue,
    }
    return Bundle(
        run_id=run_id,
        target=kind,
        versions=chosen,
        where=without_none(where),
        files=(*files, carried_site(site), *own),
        command=(*pods.COMMAND, "train"),
    )


def _own_script(run: Run) -> str | None:
    """The user's script when it is on this machine and on no claim; None when pods have it otherwise."""
    path = run.spec.train.script if run.spec.train else None
    if path is None or run.holds(path) or not Path(path).is_file():
        return None
    try:
        return Path(path).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise InputError([Problem(path, field="train.script", what=f"cannot be carried: {why}")]) from error


def _heading(kind: str, run: Run) -> str:
    made = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    unproved = [name for name, version in run.versions.items() if version not in facts.versions(name).proved]
    lines = [f"Run {run.id} as {kind}, written for {made}."]
    if unproved:
        lines.append(f"No test of trainwright ran on this version of {', '.join(unproved)}.")
    lines.append(f"{run.plan.layout.world_size} rank(s) on {run.nodes} node(s): {run.plan.machine}.")
    lines += [f"In no claim of the site, so it must be in the image: {_one_line(path)}" for path in run.outside()]
    return "\n".join(lines)


def _one_line(path: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in path)
