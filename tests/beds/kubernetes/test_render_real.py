"""Rendered runs on real nodes: two pods meet, train by the user's own script, and get every byte of the spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kubernetes_bed import IMAGE, PATIENCE, Bed, until
from kubernetes_specs import own_script, plan_of, site_of

from trainwright.targets.kubernetes.render import render

ARGUMENTS = [
    "a b",
    'it\'s "quoted"',
    "$(TRAINWRIGHT_RUN_DIR) $$ $HOME `x`",
    "line 1\nline 2",
    "é \u4e2d \U0001f600",
    "",
]
VALUE = "$(HOME) $$(A) \"x\" 'y'\nsecond line \\ é # : {"
SCRIPT = """
import json, os, pathlib, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
told = {"args": sys.argv[1:], "value": os.environ["VALUE"], "sum": total.item(), "user": os.getuid()}
run = pathlib.Path(os.environ["TRAINWRIGHT_RUN_DIR"])
(run / f"told-{dist.get_rank()}.json").write_text(json.dumps(told))
dist.barrier()
print("trained", flush=True)
"""
#: The end of training by kind, as the object's status tells it.
DONE = {
    "jobset": ("jobset", "{.status.terminalState}", "Completed"),
    "mpijob": ("mpijob", '{.status.conditions[?(@.type=="Succeeded")].status}', "True"),
    "trainjob": ("trainjob", '{.status.conditions[?(@.type=="Complete")].status}', "True"),
    "pytorchjob": ("pytorchjob", '{.status.conditions[?(@.type=="Succeeded")].status}', "True"),
    "job": ("job", "{.status.succeeded}", "2"),
}


@pytest.mark.parametrize("kind", DONE)
def test_two_nodes_train_and_every_byte_arrives(
    real_kubernetes: Bed, namespace: str, kind: str, tmp_path: Path
) -> None:
    shared = real_kubernetes.volume("shared", namespace)
    (shared / "train.py").write_text(SCRIPT)
    spec = own_script(
        train={"script": "/shared/train.py", "args": ARGUMENTS}, env={"VALUE": VALUE}, image=IMAGE,
        target={"name": kind},
    )  # fmt: skip
    site = site_of(
        namespace=namespace, queue=None, claims=[{"name": "shared", "path": "/shared"}],
        node_labels={"bed/real": "true"},
    )  # fmt: skip
    bundle = render(kind, plan_of(spec, 2), spec, site, {})
    bundle.write(tmp_path)
    for file in bundle.files:  # what comes after training is the target's to start
        if file.apply_order and file.path != "finish.yaml":
            real_kubernetes.kubectl("apply", "--server-side", "--validate=strict", "-f", str(tmp_path / file.path))
    name = bundle.where["name"]
    what, path, wanted = DONE[kind]

    def done() -> bool:
        status = real_kubernetes.kubectl("get", what, name, "-n", namespace, "-o", f"jsonpath={path}")
        return status == wanted

    try:
        until(done, f"{kind} to train", 3 * PATIENCE)  # each pod imports PyTorch several times over
    except AssertionError as error:
        pods = real_kubernetes.kubectl("get", "pods", "-n", namespace, "-o", "wide", check=False)
        logs = real_kubernetes.kubectl(
            "logs", "-n", namespace, "-l", f"trainwright.dev/run={name}", "--tail=60", "--prefix", check=False
        )
        raise AssertionError(f"{error}\n{pods}\n{logs}") from None
    run = shared / "runs" / bundle.run_id
    for rank in range(2):
        told: dict[str, Any] = json.loads((run / f"told-{rank}.json").read_text())
        assert told == {"args": ARGUMENTS, "value": VALUE, "sum": 3.0, "user": 1000}
        assert "trained" in (run / "logs" / "1" / f"rank-{rank}.log").read_text()
