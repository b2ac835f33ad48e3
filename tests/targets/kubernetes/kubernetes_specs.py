"""Specs, plans and sites for the tests of the Kubernetes targets. Small, and with nothing of this machine in them."""

from __future__ import annotations

from typing import Any

from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan, RankBytes, RankClass, StepSeconds
from trainwright.spec.load import spec_from_values
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site

IMAGE = "registry.example.com/train:1.4"


def spec_of(**fields: Any) -> RunSpec:
    """A pre-training of gpt2 on two p4d.24xlarge, unless told otherwise."""
    values = {
        "name": "demo", "model": "gpt2", "data": {"sources": ["/shared/text"]}, "global_batch_size": 16,
        "compute": {"instance": "p4d.24xlarge", "nodes": 2}, "image": IMAGE, "register": {"name": "demo",
        "path": "/shared/registry"}, **fields,
    }  # fmt: skip
    return spec_from_values({name: value for name, value in values.items() if value is not None})


def own_script(**fields: Any) -> RunSpec:
    """The user's own script on two nodes of which nothing is known."""
    own = {"script": "/shared/code/train.py", "args": ["--lr", "1e-3"]}
    given = {"compute": {"nodes": 2, "processes_per_node": 1}, "global_batch_size": 2, **fields}
    return spec_of(**{"train": own, "model": None, "data": None, "register": None, **given})


def site_of(**kubernetes: Any) -> Site:
    """A cluster with a queue and a file system."""
    given = {
        "context": "eks", "namespace": "training", "queue": "team",
        "claims": [{"name": "fsx", "path": "/shared"}], **kubernetes,
    }  # fmt: skip
    return Site.model_validate({"name": "eks", "region": "us-east-1", "kubernetes": given})


def plan_of(spec: RunSpec, world: int = 16, **fields: Any) -> Plan:
    """Plain data parallelism, with figures of a real size."""
    return Plan(
        spec_sha256=spec.sha256,
        layout=Layout(dp_replicate=world),
        machine=f"{spec.compute.nodes} × {spec.compute.instance}",
        ranks=(RankClass(0, RankBytes(weights=250_000_000, optimizer=1_000_000_000, master=500_000_000)),),
        step_seconds=StepSeconds(compute=0.4),
        **{"hours": 2.0, **fields},
    )
