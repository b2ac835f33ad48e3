"""Predicted static bytes against the bytes counted in real processes that train tiny models on CPU."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright.models import registry
from trainwright.models.layout import Layout
from trainwright.planner.constants import constants_for
from trainwright.planner.inputs import dims_of
from trainwright.planner.memory import Memory
from trainwright.planner.workload import Workload

TINY = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 160,
    "vocab_size": 512, "max_position_embeddings": 128, "tie_word_embeddings": False,
    "hidden_act": "silu", "rms_norm_eps": 1e-5,
}  # fmt: skip

#: Trains two steps as the built-in trainer does and prints [weights, gradients, optimizer] bytes of this rank.
PROGRAM = """
import json, sys
import torch, torch.distributed as dist
from transformers import AutoConfig, AutoModelForCausalLM
from trainwright.models.layout import Layout
from trainwright.training.devices import Device
from trainwright.training.mesh import build_mesh, data_ranks
from trainwright.training.parallel.data import apply
from trainwright.training.precision import Precision

folder, layout, rank = sys.argv[1], Layout.from_dict(json.loads(sys.argv[2])), int(sys.argv[3])
# A file instead of a server in rank 0: no port to lose to somebody else, and any rank may leave first.
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=layout.world_size)
torch.manual_seed(0)
mesh = build_mesh(layout, "cpu")
data = data_ranks(mesh)
model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
precision = Precision("fp32", torch.float32, torch.float32)
wrapped = apply(model, list(model.model.layers), mesh, data, layout, precision, torch.device("cpu"))
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
local = lambda t: t.to_local() if hasattr(t, "to_local") else t
for step in range(2):
    optimizer.zero_grad(set_to_none=True)
    with wrapped.micro_batch(last=True):
        tokens = torch.randint(0, 500, (1, 16))
        wrapped.module(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    optimizer.step()
size = lambda ts: sum(local(t).numel() * local(t).element_size() for t in ts)
parameters = list(model.parameters())
states = [t for s in optimizer.state.values() for k, t in s.items() if k != "step"]
mine = [size(parameters), size([p.grad for p in parameters]), size(states)]
gathered = [None] * dist.get_world_size()
dist.all_gather_object(gathered, mine)
if dist.get_rank() == 0:
    print("BYTES", json.dumps(gathered))
dist.barrier()  # a rank that leaves early ends the connections that a slower one still reads from
dist.destroy_process_group()
"""

pytestmark = pytest.mark.slow  # each rank imports torch and transformers


def _counted(folder: Path, layout: Layout) -> list[list[int]]:
    """[weights, gradients, optimizer] bytes of each rank of a real run."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), json.dumps(layout.to_dict()), str(rank)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(layout.world_size)
    ]
    outputs = [process.communicate(timeout=900) for process in processes]
    codes = [process.returncode for process in processes]
    assert not any(codes), (codes, [error[-2000:] for _, error in outputs])
    line = next(line for line in outputs[0][0].splitlines() if line.startswith("BYTES"))
    found: list[list[int]] = json.loads(line.removeprefix("BYTES"))
    return found


def _predicted(layout: Layout) -> list[float]:
    dims = dims_of(registry.from_config(TINY, name="tiny"))
    workload = Workload(dims, 16, layout.global_batch_size, precision="fp32")
    memory = Memory(workload, constants_for("cpu", "none", "native").stack)
    dense, experts, _ = memory.stage_params(layout, dims.layers, True, True)
    weights, gradients, _, optimizer = memory.static(layout, dense, experts)
    return [weights, gradients, optimizer]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if not all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
        pytest.skip("needs the train extra")
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    return tmp_path


LAYOUTS: list[dict[str, Any]] = [
    {"dp_replicate": 2},
    {"dp_shard": 2, "zero": 1},
    {"dp_shard": 2, "zero": 2},
    {"dp_shard": 2, "zero": 3},
    {"dp_replicate": 2, "dp_shard": 2, "zero": 3},
]


def test_one_process_holds_what_is_predicted(folder: Path) -> None:
    assert _counted(folder, Layout()) == [[round(n) for n in _predicted(Layout())]]


@pytest.mark.parametrize("fields", LAYOUTS, ids=str)
def test_every_data_parallel_layout_holds_what_is_predicted(folder: Path, fields: dict[str, Any]) -> None:
    """Exact on the mean rank: FSDP2 cuts rows, so that single ranks differ by a row."""
    layout = Layout(**fields)
    counted = _counted(folder, layout)
    mean = [sum(rank[i] for rank in counted) / len(counted) for i in range(3)]
    predicted = _predicted(layout)
    if layout.zero == 1:
        # After the step's last micro-batch gradients are shards; whole ones exist only before it.
        predicted[1] = predicted[0]
    assert mean == pytest.approx(predicted, rel=1e-9)
