"""A finding about idle accelerators says what an hour of them costs when that is known, and nothing otherwise."""

from __future__ import annotations

import re

import pytest

from trainwright.facts import prices
from trainwright.linter.engine import Options, lint_texts

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  completionMode: Indexed
  parallelism: 4
  completions: 4
  template:
    spec:
      nodeSelector: {{{selector}}}
      restartPolicy: Never
      containers:
        - name: train
          image: example.com/train:1
          command: [torchrun, --nnodes=4, --nproc_per_node={processes}, --rdzv_backend=c10d,
                    --rdzv_endpoint=train-0.train:29500, train.py]
          resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
TYPE = "node.kubernetes.io/instance-type: "


def why(selector: str, processes: int) -> str:
    text = JOB.format(selector=selector, processes=processes)
    (finding,) = lint_texts({"job.yaml": text}, Options(select=["TW206"], strict=True))
    return finding.why


@pytest.mark.parametrize(("processes", "idle"), [(1, 28), (4, 16), (7, 4)])
def test_the_idle_ones_of_all_nodes_are_counted(processes: int, idle: int) -> None:
    price = prices.find("p4d.24xlarge")
    assert price is not None
    match = re.search(
        rf"\({idle} × A100\S*, about \$(\d+) an hour on demand\)$", why(TYPE + "p4d.24xlarge", processes)
    )
    assert match
    assert int(match[1]) == round(price.usd_per_hour / 8 * idle)


@pytest.mark.parametrize(
    "selector",
    ["", TYPE + "x9.unknown", TYPE + "p4d.24xlarge, karpenter.sh/capacity-type: spot", "gpu: a100"],
)
def test_nothing_is_said_when_machine_or_price_is_not_known(selector: str) -> None:
    assert "$" not in why(selector, 1)
