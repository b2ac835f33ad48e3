"""``doctor`` on Ray: what a running Ray has and lacks for a run, each line with its fix. Only asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.errors import TrainwrightError
from trainwright.facts.versions import parts, versions
from trainwright.targets.doctor import Check
from trainwright.targets.ray.api import Jobs
from trainwright.targets.ray.render import demand

_STAGES = ("prepare", "train", "finish")


def examine(jobs: Jobs, request: Mapping[str, Any] | None) -> list[Check]:
    """Every check; ``request`` is that of a rendered run. SystemUnreachable when Ray does not answer at all."""
    found = [*_version(jobs.version())]
    try:
        nodes = jobs.nodes()
    except TrainwrightError as error:
        return [*found, Check("unknown", "nodes", str(error), "install Ray there as ray[default]")]
    total = {name: sum(node.get(name, 0.0) for node in nodes) for name in ("CPU", "GPU", "neuron_cores")}
    has = ", ".join(f"{amount:g} {name}" for name, amount in total.items() if amount)
    found.append(Check("ok" if nodes else "missing", "nodes", f"{len(nodes)}: {has}", "ray start on some"))
    if request is not None:
        for stage in _STAGES:
            if f"--{stage}" in str(request["entrypoint"]) or stage == "train":
                found.append(_fits(stage, nodes, *demand(request, stage)))
    return found


def _version(version: str) -> Iterator[Check]:
    table = versions("ray")
    try:
        number = parts(version)[:2]
    except ValueError:
        yield Check("unknown", "Ray", f"calls itself {version}", "try a small run first")
        return
    name = ".".join(map(str, number))
    if number < parts(table.known[0]):
        yield Check(
            "missing", "Ray", f"{version} has no Ray Train v2 as the driver uses it", f"update to {table.default}"
        )
    elif name in table.proved:
        yield Check("ok", "Ray", f"{version}, the suites ran on it")
    else:
        yield Check("warning", "Ray", f"{version}; no suite ran on it", "try a small run first")


def _fits(stage: str, nodes: Sequence[Mapping[str, float]], workers: int, held: Mapping[str, float]) -> Check:
    asked = ", ".join(f"{amount:g} {name}" for name, amount in held.items())
    fitting = sum(all(node.get(name, 0) >= amount for name, amount in held.items()) for node in nodes)
    detail = f"{workers} node(s) with {asked}; {fitting} of {len(nodes)} have that much"
    return Check("ok" if fitting >= workers else "missing", stage, detail, "add nodes to Ray, or ask for less")
