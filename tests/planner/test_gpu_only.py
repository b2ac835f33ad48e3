"""What runs on GPUs alone is refused before a run starts, with the reason and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.planner import explicit
from trainwright.spec.load import load

SPEC = "name: x\nmodel: ./m\ndata: {sources: [./d]}\nglobal_batch_size: 4\n"


def write(folder: Path, more: str) -> Path:
    (folder / "run.yaml").write_text(SPEC + more)
    return folder / "run.yaml"


def test_an_8_bit_optimizer_needs_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(write(tmp_path, "optimizer: {name: adamw8bit}\n"))
    monkeypatch.setattr(explicit, "count_accelerators", lambda: 0)
    with pytest.raises(InputError, match=r"run.yaml:5:19: optimizer.name: is adamw8bit.*no GPU; use adamw"):
        explicit.plan_local(loaded)
    monkeypatch.setattr(explicit, "count_accelerators", lambda: 1)
    assert explicit.plan_local(loaded).layout.world_size == 1


def test_4_bit_weights_are_for_a_script_of_your_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run.yaml:5:9: method: is qlora: kernels for CUDA.*use method: lora"):
        load(write(tmp_path, "method: qlora\n"))
    own = load(write(tmp_path, "method: qlora\ntrain: {script: ./train.py}\n"))
    assert own.spec.method == "qlora"
