"""Pipeline parallelism: stages of blocks on the mesh's pp ranks, run by torch.distributed.pipelining's schedules.

Takes a built model and the layout; leaves each rank with its stages and gives what runs a step's micro-batches over
them. Only hidden states and their gradients travel between stages: every rank of a pipeline has the same
micro-batches, so token ids, positions and documents reach each stage as keyword arguments. Virtual stage s is on pp
rank s mod pp.

The loss is a weighted sum over tokens, so gradients of micro-batches are added and never divided (``scale_grads``).
Where the head is tied to the embedding, the first and the last stage hold the matrix each; both gradients are summed
after the step's last backward, so that the copies stay equal, and the copy counts in no norm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.distributed.tensor import DTensor

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout
from trainwright.models.registry import FAMILIES, TEXT_MODELS, family
from trainwright.models.stages import IN_STAGES, balanced_stages
from trainwright.training.attention import Kernel
from trainwright.training.batches import DeviceBatch
from trainwright.training.model import Built
from trainwright.training.parallel.data import Compute, DataParallel, MicroBatch
from trainwright.training.parallel.stage import Cutter, Part, StageObjective, parts
from trainwright.training.precision import Precision

#: Model chunks of a rank under the interleaved schedule, where the layout names no stages.
CHUNKS = 2
#: Next-sentence label of a row without one (cross-entropy leaves it out).
_NO_LABEL = -100


@dataclass(frozen=True)
class Cut:
    """What a rank of a pipeline holds: parts of the model, in model order. ``tied``: it is an end of the pipeline
    that shares a matrix with the other end.
    """

    cutter: Cutter
    mine: tuple[Part, ...]
    group: dist.ProcessGroup
    tied: bool

    @property
    def holds_first(self) -> bool:
        """True where token ids are read."""
        return any(part.is_first for part in self.mine)

    @property
    def holds_last(self) -> bool:
        """True where the loss is."""
        return any(part.is_last for part in self.mine)

    @property
    def width(self) -> int:
        """Of hidden states."""
        return int(self.cutter.model.config.hidden_size)

    @property
    def embedding(self) -> nn.Parameter:
        """The tied matrix. Under tensor parallelism the attribute reads its local part; this looks behind it."""
        weight = self.cutter.embedding._parameters["weight"]
        assert weight is not None
        return weight

    def blocks(self, part: Part) -> list[nn.Module]:
        """The blocks of one part."""
        before = sum(other.stop - other.start for other in self.mine if other.index < part.index)
        return list(self.cutter.blocks)[before : before + part.stop - part.start]

    def stage(self, part: Part, kernel: Kernel, recompute_attention: bool) -> tuple[StageObjective, list[nn.Module]]:
        """The module of one part, and its blocks."""
        blocks = self.blocks(part)
        return StageObjective(part, self.cutter.stage(part, blocks), kernel, recompute_attention), blocks


def chunks(layout: Layout) -> int:
    """Stages of each rank."""
    if layout.stages:
        return max(1, len(layout.stages) // layout.pp)
    return CHUNKS if layout.schedule == "interleaved" else 1


def refusals(
    layout: Layout, model_type: str, layers: int, adapters: bool, compiled: bool = False
) -> list[tuple[str, str]]:
    """Why this model cannot run under this layout's pipeline, each with what would be right; all at once."""
    found: list[tuple[str, str]] = []
    held, virtual = chunks(layout), layout.pp * chunks(layout)
    known = TEXT_MODELS.get(model_type, model_type) in FAMILIES
    if not known or family(model_type).name not in IN_STAGES:
        what = "was not proved to be right in stages" if known else "has no table of its modules (models/families)"
        right = f"pp: 1; these can: {', '.join(sorted(IN_STAGES))}"
        found.append((f"pp={layout.pp}: model type {model_type} {what}", right))
    if virtual > layers:
        found.append((f"{virtual} stages are more than the {layers} blocks", f"at most {layers} stages"))
    if layout.stages and sum(layout.stages) != layers:
        example = "+".join(map(str, balanced_stages(layers, len(layout.stages))))
        found.append(
            (f"stages hold {sum(layout.stages)} blocks, the model has {layers}", f"stages such as {example}")
        )
    if adapters and 0 in layout.stages:
        found.append(("a stage without blocks has no adapters to train", "stages of one block or more"))
    if held > 1 and layout.schedule != "interleaved":
        found.append((f"{layout.schedule} runs one stage on a rank, not {held}", "schedule: interleaved"))
    return [*found, *_interleaved(layout), *_zero_bubble(layout, compiled)]


def _interleaved(layout: Layout) -> Iterator[tuple[str, str]]:
    if layout.schedule != "interleaved":
        return
    if chunks(layout) < 2:
        yield "interleaved needs two stages or more on a rank", f"{2 * layout.pp} stages, or schedule: 1f1b"
    if layout.micro_batches % layout.pp:
        what = f"interleaved needs micro_batches ({layout.micro_batches}) to be a multiple of pp ({layout.pp})"
        yield what, "another micro_batch_size, or schedule: 1f1b"


def _zero_bubble(layout: Layout, compiled: bool) -> Iterator[tuple[str, str]]:
    if layout.schedule != "zero_bubble":
        return
    if layout.micro_batches % max(1, layout.micro_batches // layout.pp):
        what = f"zero_bubble needs micro_batches ({layout.micro_batches}) to be a multiple of pp ({layout.pp})"
        yield what, "another micro_batch_size, or schedule: 1f1b"
    if layout.zero and layout.dp_shard * layout.cp > 1:
        yield (
            "zero_bubble computes gradients of weights after backward, where FSDP does not see them",
            "zero: 0, or schedule: 1f1b",
        )
    if layout.recompute != "none":
        what = "zero_bubble runs parts of backward twice, and recomputation with them"
        yield what, "recompute: none, or schedule: 1f1b"
    if compiled:
        yield "zero_bubble cannot part the backward of a compiled block", "compile: false, or schedule: 1f1b"
    if layout.tp > 1 or layout.ep > 1:
        yield "zero_bubble was not proved beside tp or ep, whose collectives would run twice", "schedule: 1f1b"


def cut(built: Built, layout: Layout, mesh: DeviceMesh, compiled: bool = False) -> Cut:
    """Take what is not this rank's out of the model, so that its memory is free. Raises AnswerNo for what cannot be
    cut, with every reason.
    """
    base = getattr(built.network, "get_base_model", None)
    model = base() if callable(base) else built.network
    model_type, blocks = str(model.config.model_type), len(built.blocks)
    problems = refusals(layout, model_type, blocks, base is not None, compiled)
    problems = problems or Cutter(model, family(model_type).modules).refusals()
    if problems:
        raise AnswerNo("; ".join(what for what, _ in problems), "; ".join(way for _, way in problems))
    stages = layout.stages or balanced_stages(blocks, layout.pp * chunks(layout))
    rank = mesh.get_local_rank("pp")
    mine = tuple(part for part in parts(stages) if part.index % layout.pp == rank)
    cutter = Cutter(model, family(model_type).modules)
    cut = Cut(cutter, mine, mesh.get_group("pp"), cutter.is_tied and any(p.is_first or p.is_last for p in mine))
    built.blocks = tuple(cutter.keep(mine))
    return cut


class Pipelined(DataParallel):
    """A rank's stages, each on all data ranks, and the schedule over them.

    The schedule is built when the first step shows the shape of its micro-batches, which must be the same ever after;
    missing micro-batches are made up for by empty ones.
    """

    def __init__(
        self, cut: Cut, stages: Sequence[DataParallel], layout: Layout, precision: Precision, device: torch.device
    ):
        super().__init__(nn.ModuleList([stage.module for stage in stages]), stages[0].loss_factor)
        self.autocast = stages[0].autocast
        self._cut, self._stages, self._layout, self._device = cut, stages, layout, device
        # Under autocast the stream of hidden states keeps the type of the embedding; FSDP casts the embedding too.
        self._wire = precision.compute if not self.autocast else cut.cutter.model.dtype
        self.model_group = cut.group
        for stage in stages:
            stage.module.backward_in_parts = layout.schedule == "zero_bubble"
        self._schedule: Any = None
        self._shape: torch.Size | None = None
        self._compute: Compute | None = None
        self._totals: dict[int, Tensor] = {}
        self._sending: list[tuple[dist.Work, Tensor]] = []

    def copies(self) -> list[nn.Parameter]:
        """The last stage's copy of a tied embedding."""
        return [self._cut.embedding] if self._cut.tied and not self._cut.holds_first else []

    def gradients(self, work: Sequence[MicroBatch], compute: Compute) -> tuple[Tensor, ...]:
        """Every micro-batch through all stages and back; the sum of each one's loss, on every rank."""
        self._compute = compute
        padded = [*work, *[_empty(work[0])] * (self._layout.micro_batches - len(work))]
        schedule = self._opened(padded[0].batch.input_ids.shape)
        arguments = [{"number": number, "work": one} for number, one in enumerate(padded)]
        inputs = [(one.batch.input_ids,) for one in padded]
        if self._cut.holds_first:
            schedule.step(arg_mbs=inputs, kwarg_mbs=arguments, target_mbs=inputs, return_outputs=False)
        else:
            schedule.step(kwarg_mbs=arguments, target_mbs=inputs, return_outputs=False)
        self.complete()
        return self._shared(len(work))

    def complete(self) -> None:
        """Gradients over data ranks, then over both ends of a tied embedding."""
        for stage in self._stages:
            stage.complete()
        if self._cut.tied and self._cut.embedding.requires_grad:
            self._sum_ends()
        super().complete()

    def loss(self, batch: DeviceBatch, compute: Compute) -> Tensor:
        """Sum of the loss over a batch's targets where the last stage is, zero elsewhere. Sends do not wait: while
        one stage computes this batch, the one before has begun with the next.
        """
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        shape = (*batch.input_ids.shape, self._cut.width)
        for part, stage in zip(self._cut.mine, self._stages, strict=True):
            hidden = batch.input_ids
            if not part.is_first:
                hidden = torch.empty(shape, dtype=self._wire, device=self._device)
                dist.recv(hidden, group=self._cut.group, group_src=(part.index - 1) % self._layout.pp)
            out = compute(stage.module, None, hidden, batch, 0.0)
            if part.is_last:
                total = out[1]
            else:
                self._send(self._typed(out).contiguous(), (part.index + 1) % self._layout.pp)
        return total

    def rest(self) -> None:
        """Wait for what was sent; shard again."""
        self._settle(0)
        for stage in self._stages:
            stage.rest()

    def _opened(self, shape: torch.Size) -> Any:
        """The schedule for micro-batches of this shape [B, T]."""
        if self._schedule is None:
            self._shape = shape
            self._schedule = self._open(shape)
        assert shape == self._shape, "micro-batches of a pipeline must have one shape"
        return self._schedule

    def _open(self, shape: torch.Size) -> Any:
        layout = self._layout
        ids = torch.empty(shape, dtype=torch.int64, device="meta")
        hidden = torch.empty((*shape, self._cut.width), dtype=self._wire, device="meta", requires_grad=True)
        loss = torch.empty((), device="meta", requires_grad=True)
        stages = [
            _Stage(
                _Shell(self, part, stage), part.index, part.count, self._device, group=self._cut.group,
                input_args=ids if part.is_first else hidden, output_args=loss if part.is_last else hidden,
            )
            for part, stage in zip(self._cut.mine, self._stages, strict=True)
        ]  # fmt: skip
        settings: dict[str, Any] = {"loss_fn": _loss, "scale_grads": False}
        if layout.schedule == "interleaved":
            return ScheduleInterleaved1F1B(stages, layout.micro_batches, **settings)
        if layout.schedule == "zero_bubble":
            return ScheduleInterleavedZeroBubble(stages, layout.micro_batches, **settings)
        # With fewer micro-batches than stages nothing is left of 1F1B's steady phase: it is GPipe.
        steady = layout.schedule == "1f1b" and layout.micro_batches >= layout.pp
        return (Schedule1F1B if steady else ScheduleGPipe)(stages[0], layout.micro_batches, **settings)

    def run(self, part: Part, stage: DataParallel, hidden: Tensor, number: int, work: MicroBatch) -> Tensor:
        """One stage's forward of micro-batch ``number``; called by the schedule."""
        assert self._compute is not None
        seed = stage_seed(work.seed, part.index)
        out = self._compute(stage.module, seed, hidden, work.batch, work.weight, work.row_weight)
        if not part.is_last:
            return self._typed(out)
        loss, self._totals[number] = out
        weighted: Tensor = loss
        return weighted

    def _typed(self, hidden: Tensor) -> Tensor:
        """In the type that the next stage has made room for, whatever the last block gives."""
        return hidden.to(self._wire)

    def _shared(self, count: int) -> tuple[Tensor, ...]:
        """The last stage's sums on every rank of the pipeline."""
        if self._cut.holds_last:
            totals = torch.stack([self._totals[number].double() for number in range(count)])
        else:
            totals = torch.empty(count, dtype=torch.float64, device=self._device)
        self._totals.clear()
        dist.broadcast(totals, group=self._cut.group, group_src=self._layout.pp - 1)
        return tuple(totals.unbind())

    def _sum_ends(self) -> None:
        """Add the other end's gradient of the tied embedding: the same two numbers on both, so the same sum."""
        gradient = self._cut.embedding.grad
        assert gradient is not None
        mine = gradient.to_local() if isinstance(gradient, DTensor) else gradient
        other = torch.empty_like(mine)
        peer = self._layout.pp - 1 if self._cut.holds_first else 0
        group = self._cut.group
        both = [
            dist.P2POp(dist.isend, mine.contiguous(), group=group, group_peer=peer),
            dist.P2POp(dist.irecv, other, group=group, group_peer=peer),
        ]
        for transfer in dist.batch_isend_irecv(both):
            transfer.wait()
        add_end(mine, other)

    def _send(self, hidden: Tensor, rank: int) -> None:
        self._settle(2)
        self._sending.append((dist.isend(hidden, group=self._cut.group, group_dst=rank), hidden))

    def _settle(self, left: int) -> None:
        while len(self._sending) > left:
            self._sending.pop(0)[0].wait()


class _Shell(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """What the schedule takes for a stage's module. It hides FSDP from it: torch would keep parameters gathered and
    gradients whole for the step, whatever ZeRO stage was asked for.
    """

    def __init__(self, pipeline: Pipelined, part: Part, stage: DataParallel):
        super().__init__()
        self.module = stage.module
        self._run = (pipeline.run, part, stage)

    def forward(self, hidden: Tensor, *, number: int, work: MicroBatch) -> Tensor:
        """Hidden states, or the loss of the last stage."""
        run, part, stage = self._run
        return run(part, stage, hidden, number, work)

    def backward_of(self, last: bool) -> Any:
        """Context of one micro-batch's backward."""
        return self._run[2].micro_batch(last)


class _Stage(PipelineStage):  # type: ignore[misc]
    """A stage whose data parallelism is told which backward is the step's last."""

    def backward_maybe_with_nosync(self, backward_type: Any, bwd_kwargs: Any, last_backward: bool = False) -> Any:
        """Torch's own, within the context of the micro-batch."""
        with self.submod.backward_of(last_backward):
            return super().backward_maybe_with_nosync(backward_type, bwd_kwargs, last_backward)


def add_end(mine: Tensor, other: Tensor) -> None:
    """Both ends' gradients of a tied embedding: neither alone is the gradient."""
    mine.add_(other)


def stage_seed(seed: int, stage: int) -> int:
    """Dropout's seed on a stage: the first one's is that of the whole model, and no other stage has the same."""
    return (seed + stage * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF


def _loss(output: Tensor, _: Any) -> Tensor:
    """The last stage has computed it: its weight is that of a token sum, so nothing divides it any more."""
    return output


def _empty(work: MicroBatch) -> MicroBatch:
    """A micro-batch of the same shape without targets."""
    batch = work.batch
    none = batch.targets.new_empty(0)
    rows = batch.next_sentence_labels
    unlabelled = None if rows is None else torch.full_like(rows, _NO_LABEL)
    return replace(work, batch=replace(batch, targets=none, labels=none, next_sentence_labels=unlabelled))
