"""Checkpoints of DeepSpeed's own are taken over whole, whatever cut them, and nothing in their files is run.

Here the files are written as DeepSpeed lays them out; those of DeepSpeed itself are read in tests/parity.
"""

from __future__ import annotations

import collections
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from trainwright.checkpoints.manager import CheckpointManager
from trainwright.checkpoints.resume import at_step
from trainwright.cli import main
from trainwright.errors import AnswerNo, InputError
from trainwright.training.from_deepspeed import convert

GROUPS = [{"embed.weight": (7, 3), "up.weight": (5, 3)}, {"norm.weight": (3,)}]
STEPS, SAMPLES = 4, 32


def values(name: str, key: str) -> Tensor:
    shape = {name: shape for group in GROUPS for name, shape in group.items()}[name]
    generator = torch.Generator().manual_seed(sum(map(ord, name + key)))
    return torch.randn(shape, generator=generator)


def save(folder: Path, stage: int, ranks: int = 2, **model: Any) -> Path:
    """Two groups of parameters and Adam's averages, in the layout of ZeRO's stage."""
    tag = folder / "global_step4"
    tag.mkdir(parents=True)
    (folder / "latest").write_text("global_step4")
    states = {
        "module": {"embed.weight": torch.zeros(()), "rope.table": torch.arange(4.0)},
        "buffer_names": ["rope.table"], "global_steps": STEPS, "global_samples": SAMPLES, "skipped_steps": 1,
        "param_shapes": [collections.OrderedDict((n, torch.Size(s)) for n, s in group.items()) for group in GROUPS],
        "frozen_param_shapes": {"frozen.weight": torch.Size((2, 2))}, **model,
    }  # fmt: skip
    for rank in range(ranks):
        if stage == 3 or rank == 0:
            name = f"zero_pp_rank_{rank}_" if stage == 3 else ""
            torch.save(states, tag / f"{name}mp_rank_00_model_states.pt")
        cut = {
            key: [piece(group, key, stage, rank, ranks) for group in GROUPS] for key in ("", "exp_avg", "exp_avg_sq")
        }
        adam = {
            "state": {
                index: {"step": torch.tensor(3.0), **{key: cut[key][index] for key in ("exp_avg", "exp_avg_sq")}}
                for index in range(len(GROUPS))
            },
            "param_groups": [{"params": [index]} for index in range(len(GROUPS))],
        }  # fmt: skip
        keys = ("fp32_flat_groups", "optimizer_state_dict")
        if stage < 3:
            keys = ("single_partition_of_fp32_groups", "base_optimizer_state")
        part = {"zero_stage": stage, "partition_count": ranks, keys[0]: cut[""], keys[1]: adam}
        torch.save({"optimizer_state_dict": part}, tag / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    return folder


def piece(group: dict[str, Any], key: str, stage: int, rank: int, ranks: int) -> Tensor:
    """Of one flat group: equal pieces of the whole (stages 1 and 2), or of each parameter (stage 3), padded."""

    def part(flat: Tensor, multiple: int) -> Tensor:
        size = multiple * math.ceil(flat.numel() / multiple)
        return torch.cat([flat, torch.zeros(size - flat.numel())]).view(ranks, -1)[rank].clone()

    flats = [values(name, key).flatten() for name in group]
    if stage == 3:
        return torch.cat([part(flat, ranks) for flat in flats])
    whole = torch.cat(flats)
    found = part(whole, 2 * ranks)
    if key == "" and rank == ranks - 1:  # the padding of weights is not saved, that of averages is
        found = found[: whole.numel() - (ranks - 1) * found.numel()]
    return found


def read(folder: Path) -> dict[str, Any]:
    names = [name for group in GROUPS for name in group]
    state: dict[str, Any] = {
        "model": {"rope.table": torch.zeros(4), **{name: torch.zeros_like(values(name, "")) for name in names}},
        "optimizer": {
            name: {
                "step": torch.zeros(()), "exp_avg": torch.zeros_like(values(name, "")),
                "exp_avg_sq": torch.zeros_like(values(name, "")),
            }
            for name in names
        },
        "trainer": {},
    }  # fmt: skip
    with CheckpointManager(folder, spec_sha256="", layout=None, attempt=1) as checkpoints:
        checkpoints.load(at_step(folder, STEPS), state)
    return state


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_every_value_arrives_whole(tmp_path: Path, stage: int, ranks: int) -> None:
    done = convert(save(tmp_path / "ds", stage, ranks), tmp_path / "ours")
    state = read(tmp_path / "ours")
    for group in GROUPS:
        for name in group:
            assert torch.equal(state["model"][name], values(name, ""))
            for key in ("exp_avg", "exp_avg_sq"):
                assert torch.equal(state["optimizer"][name][key], values(name, key))
            assert state["optimizer"][name]["step"] == 3.0
    assert torch.equal(state["model"]["rope.table"], torch.arange(4.0))
    progress = state["trainer"]["progress"]
    assert (progress["step"], progress["samples"], progress["skipped"]) == (STEPS, SAMPLES, 1)
    assert (done.stage, done.ranks, done.parameters, done.frozen) == (stage, ranks, 39, 1)
    assert done.optimizer == ("exp_avg", "exp_avg_sq", "step")


class Trap:
    """What a pickle can do when it is loaded as pickles usually are."""

    def __init__(self, function: Callable[..., Any], *arguments: str):
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, ...]]:
        return self.call


def test_nothing_that_a_file_names_is_called(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    (tmp_path / "a").write_text("")
    source = save(tmp_path / "ds", 2, client=Trap(shutil.copyfile, str(tmp_path / "a"), str(sprung)))
    convert(source, tmp_path / "ours")
    assert not sprung.exists()
    # trainwright: ignore[TW831] the unsafe load is the point: it must spring the trap that this test wrote itself
    torch.load(source / "global_step4" / "mp_rank_00_model_states.pt", weights_only=False)
    assert sprung.exists(), "the trap proves nothing"


def test_a_file_that_reaches_for_the_system_is_refused(tmp_path: Path) -> None:
    source = save(tmp_path / "ds", 2, client=Trap(os.mkdir, str(tmp_path / "sprung")))
    with pytest.raises(AnswerNo, match=r"it names posix\.mkdir"):
        convert(source, tmp_path / "ours")
    assert not (tmp_path / "sprung").exists()


def drop(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / "global_step4" / name).unlink()


def flip(folder: Path) -> None:
    path = folder / "global_step4" / "zero_pp_rank_1_mp_rank_00_optim_states.pt"
    data = bytearray(path.read_bytes())
    where = data.index(values("norm.weight", "exp_avg").numpy().tobytes()[8:])
    data[where] ^= 1
    path.write_bytes(bytes(data))


def cut_short(folder: Path) -> None:
    path = folder / "global_step4" / "mp_rank_00_model_states.pt"
    path.write_bytes(path.read_bytes()[:-200])


def rename(old: str, new: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / "global_step4" / old).rename(folder / "global_step4" / new)


@pytest.mark.parametrize(
    ("harm", "error", "text"),
    [
        (flip, AnswerNo, "zero_pp_rank_1_mp_rank_00_optim_states.pt is damaged"),
        (cut_short, AnswerNo, "mp_rank_00_model_states.pt is not whole"),
        (drop("zero_pp_rank_0_mp_rank_00_optim_states.pt"), AnswerNo, "lacks the optimizer files of ranks 0"),
        (drop("zero_pp_rank_1_mp_rank_00_optim_states.pt"), AnswerNo, "saved by 2 ranks and holds"),
        (drop("mp_rank_00_model_states.pt"), InputError, "holds no file"),
        (rename("mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"), AnswerNo, "cut over tensor ranks"),
        (
            rename("mp_rank_00_model_states.pt", "layer_0_expert_1_mp_rank_00_model_states.pt"), AnswerNo,
            "experts or pipeline stages",
        ),
        (lambda folder: (folder / "latest").write_text("global_step9"), InputError, "it holds global_step4"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_over_whole_is_refused(
    tmp_path: Path, harm: Callable[[Path], Any], error: type[Exception], text: str
) -> None:
    source = save(tmp_path / "ds", 2)
    harm(source)
    with pytest.raises(error, match=text):
        convert(source, tmp_path / "ours")
    assert not list(tmp_path.glob("ours/step-*"))


def test_partitions_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    shapes = [
        {"embed.weight": torch.Size((9, 3)), "up.weight": torch.Size((5, 3))},
        {"norm.weight": torch.Size((3,))},
    ]
    for stage in (2, 3):
        with pytest.raises(AnswerNo, match="do not add up"):
            convert(save(tmp_path / f"ds{stage}", stage, param_shapes=shapes), tmp_path / "ours")


def test_a_run_that_is_as_far_is_left_alone(tmp_path: Path) -> None:
    source = save(tmp_path / "ds", 1)
    convert(source, tmp_path / "ours")
    with pytest.raises(AnswerNo, match="holds a checkpoint of step 4"):
        convert(source, tmp_path / "ours")


def test_the_verb_says_what_was_taken_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = [{f"m.{name}": torch.Size(shape) for name, shape in group.items()} for group in GROUPS]
    source = save(tmp_path / "ds", 3, param_shapes=shapes, buffer_names=[])
    command = ["checkpoint", "import", str(source), str(tmp_path / "ours"), "--output", "json"]
    assert ask([*command, "--strip", "module."]) == 2
    assert "and m.embed.weight does not begin with it" in capsys.readouterr().out
    assert ask([*command, "--strip", "m.", "--tag", "global_step4"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == str(tmp_path / "ours" / "step-00000004")


def ask(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)
