"""A checkpoint that DeepSpeed itself saved (ZeRO 1 to 3), made into one of ours: weights, optimizer state, position.

Takes the folder that ``engine.save_checkpoint`` wrote; gives ``step-N`` with a manifest, under the names of the
module that was trained, so that every layout and engine goes on from it. DeepSpeed's files are pickles: they are read
without importing or calling anything that they name, and deepspeed itself is not needed.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainwright.checkpoints.format import folder_name, step_folders, step_of
from trainwright.checkpoints.manager import CheckpointManager
from trainwright.checkpoints.store import LocalStore
from trainwright.errors import AnswerNo, InputError, Problem
from trainwright.training.precision import LossScale
from trainwright.training.state import Progress, counters

_OPTIMIZER_FILE = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_MODEL_FILE = re.compile(r"(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt")
#: Values of DeepSpeed's own types that are needed, as what they are underneath.
_NUMBERS = frozenset({"deepspeed.runtime.zero.config.ZeroStageEnum"})
#: A flat partition's weights, beside the optimizer's tensors of the same size.
_WEIGHTS = ""
State = dict[str, Any]
#: The tensors of one flat partition of one rank by name, and the optimizer's steps on it, if it counts them.
Flat = tuple[dict[str, Tensor], float | None]


@dataclass(frozen=True)
class Imported:
    """What was written, and what it was made of."""

    folder: Path
    step: int
    samples: int
    tensors: int
    parameters: int
    optimizer: tuple[str, ...]
    stage: int
    ranks: int
    frozen: int
    """Parameters of the source that were not trained: they come from the base model, as in every checkpoint here."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return {**asdict(self), "folder": str(self.folder)}


def convert(
    source: Path, target: Path, *, tag: str | None = None, strip: str = "", spec_sha256: str = ""
) -> Imported:
    """Make ``target/step-N`` of DeepSpeed's folder ``source``; N is the number of steps that were done.

    ``tag`` names one of several saves (default: what ``latest`` names); ``strip`` is taken off the front of every
    name. AnswerNo for what is damaged, incomplete, not ZeRO 1 to 3, or cut by anything else than data parallelism.
    """
    folder = _tagged(source, tag)
    model_files, optimizer_files = _files(folder)
    first = _read(model_files[0])
    shapes = _shapes(first, folder)
    parts = [_read(path)["optimizer_state_dict"] for path in optimizer_files]
    stage = _stage(parts, folder)
    flats = [list(_flats(part, stage)) for part in parts]
    weights: dict[str, Tensor] = {}
    states: dict[str, dict[str, Tensor]] = {}
    paddings = parts[0].get("param_alignment_paddings")
    walk = _whole_by_parameter(shapes, flats) if stage == 3 else _whole_by_group(shapes, flats, paddings)
    try:
        for name, values, steps in walk:
            weights[name] = values.pop(_WEIGHTS).float()
            states[name] = {key: value.float() for key, value in values.items()}
            if steps is not None and set(values) != {"exp_avg"}:  # Lion has one average and counts nothing
                states[name]["step"] = torch.tensor(steps, dtype=torch.float32)
    except (IndexError, KeyError, RuntimeError, ValueError) as error:
        raise AnswerNo(
            f"the partitions in {folder} do not add up to the parameters that it lists ({error})",
            "save it again; a folder that two jobs wrote to looks like this",
        ) from None
    model = weights | _buffers(first)
    state: State = {
        "model": {_stripped(name, strip): value for name, value in model.items()},
        "optimizer": {_stripped(name, strip): value for name, value in states.items()},
    }
    step, samples = int(first.get("global_steps") or 0), int(first.get("global_samples") or 0)
    progress = Progress(step=step, samples=samples, skipped=int(first.get("skipped_steps") or 0))
    state["trainer"] = {**counters(progress, _scale(parts[0])), "inputs": {}}
    _refuse_target(target, step)
    with CheckpointManager(
        target, spec_sha256=spec_sha256, layout=None, attempt=0, keep=1_000_000, asynchronous=False
    ) as checkpoints:
        checkpoints.save(step, samples, 0, state, wait=True)
    return Imported(
        target / folder_name(step), step, samples, len(model), sum(value.numel() for value in weights.values()),
        tuple(sorted({key for value in states.values() for key in value})), stage, len(parts),
        len(first.get("frozen_param_shapes") or ()),
    )  # fmt: skip


# -- which files ----------------------------------------------------------------------------------------------------


def _tagged(source: Path, tag: str | None) -> Path:
    """The folder with the files: of the tag that is asked for or named by ``latest``, or ``source`` itself."""
    tags = sorted(path.name for path in source.glob("*/") if any(path.glob("*_states.pt"))) if source.is_dir() else []
    latest = source / "latest"
    if tag is None and any(source.glob("*_states.pt")):
        return source
    if tag is None and latest.is_file():
        tag = latest.read_text("utf-8", "replace").strip()
    if tag is not None and tag in tags:
        return source / tag
    what = f"holds no save {tag!r}" if tag is not None else "holds no file *_model_states.pt and no `latest`"
    instead = f"it holds {', '.join(tags)}" if tags else "name the folder that engine.save_checkpoint wrote"
    raise InputError([Problem(str(source), what=what, instead=instead)])


def _files(folder: Path) -> tuple[list[Path], list[Path]]:
    """(files of the model, files of the optimizer) in order of rank."""
    names = sorted(path.name for path in folder.iterdir())
    if any("expert" in name for name in names) or any(name.startswith("layer_") for name in names):
        raise AnswerNo(
            f"{folder} is of a model whose experts or pipeline stages DeepSpeed has saved apart",
            "make it whole with DeepSpeed's own tools first",
        )
    models = {(int(m[1] or 0), int(m[2])): folder / m[0] for n in names if (m := _MODEL_FILE.fullmatch(n))}
    optimizers = {(int(m[1]), int(m[2])): folder / m[0] for n in names if (m := _OPTIMIZER_FILE.fullmatch(n))}
    if any(cut for _, cut in (*models, *optimizers)):
        raise AnswerNo(
            f"{folder} is of a model that was cut over tensor ranks", "make it whole with DeepSpeed's own tools first"
        )
    if not models:
        raise InputError([Problem(str(folder), what="holds no file *_model_states.pt", instead="save it again")])
    if not optimizers:
        raise AnswerNo(
            f"{folder} holds no file *_optim_states.pt: it is of ZeRO 0, whose optimizer state names no parameters, "
            "or it was saved without it",
            "load it by DeepSpeed, save the model by save_pretrained, and start from that",
        )
    ranks = [rank for rank, _ in sorted(optimizers)]
    missing = sorted(set(range(max(ranks) + 1)) - set(ranks))
    if missing:
        raise AnswerNo(f"{folder} lacks the optimizer files of ranks {_listed(missing)}", "copy the whole folder")
    return [models[key] for key in sorted(models)], [optimizers[key] for key in sorted(optimizers)]


def _refuse_target(target: Path, step: int) -> None:
    """A run goes on from its newest checkpoint, so nothing there may be as new; and nobody may be writing."""
    newest = next((found for path in step_folders(target) if (found := step_of(path.name)) is not None), None)
    if newest is not None and newest >= step:
        raise AnswerNo(
            f"{target} holds a checkpoint of step {newest}, and this one is of step {step}: a run would go on from "
            "that",
            "import into another folder, or into a run that is not so far",
        )
    store = LocalStore(target)
    if target.is_dir():
        try:
            if not store.owned():
                raise AnswerNo(f"{target} is being written to by a live run", "cancel it first")
        finally:
            store.close()


# -- reading a pickle without running it ----------------------------------------------------------------------------


class _Inert:
    """Stands for an object of any type that a file names. What it is made with and told is forgotten."""

    def __new__(cls, *_: Any, **__: Any) -> _Inert:
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)


def _read(path: Path) -> State:
    """A file of DeepSpeed's. Nothing that it names is imported or called: types that torch does not vouch for become
    empty stand-ins. The sums that torch writes for every part are compared first, because torch does not.
    """
    again = "copy it again, or take an older save"
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise AnswerNo(f"{path} is not whole ({error})", again) from None
    if damaged is not None:
        raise AnswerNo(f"{path} is damaged: {damaged} is not what was written", again)
    named: list[str] = []
    try:
        named = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        known = [(int if name in _NUMBERS else _Inert, name) for name in named]
        with torch.serialization.safe_globals(known):
            values: State = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # noqa: BLE001 - whatever a file makes the reader raise, it is the file's fault
        what = f"it names {', '.join(sorted(named)[:10])}" if named else type(error).__name__
        raise AnswerNo(f"{path} cannot be read without running what it brings ({what})", again) from None
    return values


def _shapes(first: State, folder: Path) -> list[dict[str, torch.Size]]:
    """Trained parameters in the order in which they lie in each flat group."""
    shapes = first.get("param_shapes")
    if not shapes:
        raise AnswerNo(
            f"{folder} does not say which parameters it holds: it is not of ZeRO 1, 2 or 3",
            "load it by DeepSpeed and save the model by save_pretrained",
        )
    groups = [shapes] if isinstance(shapes, Mapping) else list(shapes)
    return [{str(name): torch.Size(shape) for name, shape in group.items()} for group in groups]


def _stage(parts: Sequence[State], folder: Path) -> int:
    stage = int(parts[0].get("zero_stage") or 0)
    if stage not in (1, 2, 3):
        raise AnswerNo(f"{folder} is of ZeRO {stage}", "ZeRO 1, 2 and 3 can be read")
    counts = parts[0].get("partition_count")
    ranks = max(counts) if isinstance(counts, list | tuple) else int(counts or 0)
    if ranks != len(parts):
        raise AnswerNo(
            f"{folder} was saved by {ranks} ranks and holds optimizer files of {len(parts)}",
            "copy the whole folder; each node may have written its own",
        )
    return stage


def _scale(part: State) -> LossScale:
    scaler = part.get("loss_scaler")
    scale = LossScale(enabled=bool(getattr(scaler, "dynamic", False)))
    if scale.enabled:
        scale.value = float(getattr(scaler, "cur_scale", scale.value))
    return scale


def _buffers(first: State) -> dict[str, Tensor]:
    return {name: first["module"][name] for name in first.get("buffer_names") or () if name in first["module"]}


def _stripped(name: str, prefix: str) -> str:
    if not name.startswith(prefix):
        what = f"is {prefix}, and {name} does not begin with it"
        raise InputError(
            [Problem("trainwright checkpoint import", field="--strip", what=what, instead="leave it out")]
        )
    return name.removeprefix(prefix)


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown} and {len(numbers) - 10} more" if len(numbers) > 10 else shown


# -- from flat partitions to parameters -----------------------------------------------------------------------------


def _flats(part: State, stage: int) -> Iterator[Flat]:
    """One rank's flat partitions in order. Optimizers of DeepSpeed's own count steps by group, torch's by tensor."""
    key, own = ("fp32_flat_groups", "optimizer_state_dict") if stage == 3 else (
        "single_partition_of_fp32_groups", "base_optimizer_state",
    )  # fmt: skip
    saved = part[own]
    groups: list[State] = []
    if isinstance(saved, Mapping):
        held = saved.get("state", {})
        groups = [group for group in saved.get("param_groups", ()) for _ in group["params"]]
        states = [held.get(index, {}) for index in range(len(part[key]))]
    else:  # `elastic_checkpoint`: a list, without groups
        states = list(saved)
    for index, flat in enumerate(part[key]):
        tensors = {
            k: v.flatten() for k, v in states[index].items() if torch.is_tensor(v) and v.numel() >= flat.numel()
        }
        tensors.pop("step", None)
        common = groups[index].get("step") if index < len(groups) else part.get("base_optimizer_state_step")
        steps = states[index].get("step", common)
        yield {_WEIGHTS: flat.flatten(), **tensors}, None if steps is None else float(steps)


def _whole_by_group(
    shapes: Sequence[Mapping[str, torch.Size]], flats: Sequence[Sequence[Flat]], paddings: Any
) -> Iterator[tuple[str, dict[str, Tensor], float | None]]:
    """Stages 1 and 2: a group's parameters lie one after the other, and ranks hold equal pieces of that."""
    ranks = len(flats)
    for number, group in enumerate(shapes):
        whole = {key: torch.cat([rank[number][0][key] for rank in flats]) for key in flats[0][number][0]}
        after = list(paddings[number]) if paddings else [0] * len(group)
        offset = 0
        for (name, shape), gap in zip(group.items(), after, strict=True):
            size = shape.numel()
            yield name, {k: v.narrow(0, offset, size).view(shape) for k, v in whole.items()}, flats[0][number][1]
            offset += size + int(gap)
        held, multiple = whole[_WEIGHTS].numel(), 2 * ranks
        if math.ceil(offset / multiple) != math.ceil(held / multiple):
            raise ValueError(f"group {number} holds {held} values for {offset}")


def _whole_by_parameter(
    shapes: Sequence[Mapping[str, torch.Size]], flats: Sequence[Sequence[Flat]]
) -> Iterator[tuple[str, dict[str, Tensor], float | None]]:
    """Stage 3: every parameter is cut over the ranks, padded to equal pieces; a rank's pieces lie one after the
    other.
    """
    number, offset = 0, 0
    for name, shape in ((name, shape) for group in shapes for name, shape in group.items()):
        piece = math.ceil(shape.numel() / len(flats))
        if offset == flats[0][number][0][_WEIGHTS].numel():
            number, offset = number + 1, 0
        steps = flats[0][number][1]
        values = {}
        for key in flats[0][number][0]:
            whole = torch.cat([rank[number][0][key].narrow(0, offset, piece) for rank in flats])
            values[key] = whole[: shape.numel()].view(shape)
        yield name, values, steps
        offset += piece
    if number + 1 != len(flats[0]) or offset != flats[0][number][0][_WEIGHTS].numel():
        raise ValueError("more is held than is listed")
