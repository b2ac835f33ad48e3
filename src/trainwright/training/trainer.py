"""The trainer: build mesh → build model → parallelise → load → loop(step) → save. Every rank runs this.

Takes the folder of a run (spec, plan, prepared data, checkpoints); gives an exit code. It knows the order in which
things happen; what they are is in the files beside it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from trainwright.checkpoints.manager import CheckpointManager
from trainwright.data.batch import Batch
from trainwright.data.objectives import objective
from trainwright.data.order import GlobalOrder
from trainwright.data.prepared import PreparedData
from trainwright.data.run_inputs import inputs_of, pinned, refuse_other_inputs
from trainwright.evaluation.held_out import Totals, held_out
from trainwright.models.layout import Layout
from trainwright.runs.events import EventLog
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.folder import RunFolder
from trainwright.spec.model import RunSpec
from trainwright.training import schedules
from trainwright.training.agreement import Agreement, asked_to_stop
from trainwright.training.assemble import build_stepper, open_metrics
from trainwright.training.attention import choose_kernel
from trainwright.training.batches import Batches, DeviceBatch, Slicing, StepBatch, device_mover
from trainwright.training.devices import Device, bound_collectives, current_device, join_process_group
from trainwright.training.duration import Horizon, horizon, is_due
from trainwright.training.guard import NonFinite, Suspect, accuse
from trainwright.training.mesh import DataRanks, build_mesh, data_ranks, layout_of
from trainwright.training.metrics import Clock, Metrics
from trainwright.training.model import Built, build_model
from trainwright.training.parallel import reads_once, refuse_unsupported
from trainwright.training.precision import choose_precision
from trainwright.training.profiler import Profiler
from trainwright.training.signals import StopRequest
from trainwright.training.state import Progress, counters, take_counters
from trainwright.training.step import Gradients, Stepper
from trainwright.training.whereabouts import Whereabouts


def train(
    run: RunFolder,
    attempt: int,
    stop: StopRequest,
    profile: range | None = None,
    place: Whereabouts | None = None,
) -> TrainExit:
    """Train a run to its end, to a signal, or to the first step that is not finite. ``place``: what is told of this
    rank to whoever looks for one that hangs.
    """
    spec, plan = run.spec(), run.plan()
    device = current_device()
    layout = layout_of(spec, plan, device.world_size)
    refuse_unsupported(spec, layout)
    precision = choose_precision(spec.precision, device)
    patience = timedelta(seconds=spec.compute.collective_timeout.seconds)
    join_process_group(device, patience)
    events = run.event_log(attempt, device.rank)
    cut = {"layout": str(layout)} if layout != plan.layout else {}
    events.write("rendezvous", world_size=device.world_size, device=str(device.torch), **cut)

    mesh = build_mesh(layout, device.type)
    data = data_ranks(mesh)
    prepared = PreparedData.of_run(run.data)
    built = build_model(
        pinned(run, spec),
        prepared.folder.parent,
        master=precision.master,
        frozen=precision.frozen,
        own_attention=True,
        with_weights=device.rank == 0 or spec.engine == "deepspeed" or not reads_once(layout),
    )
    stepper = build_stepper(built, spec, layout, mesh, data, precision, device)
    order = prepared.order(spec)
    length = prepared.tokens_per_sample(order)
    end = horizon(spec.duration, order.epoch_length, spec.global_batch_size, spec.sequence_length, length)
    with CheckpointManager(
        run.checkpoints,
        spec_sha256=spec.sha256,
        layout=layout,
        attempt=attempt,
        keep=spec.checkpoint.keep,
        keep_every=spec.checkpoint.keep_every,
        asynchronous=spec.checkpoint.asynchronous,
        events=events,
    ) as checkpoints:
        trainer = Trainer(
            spec=spec,
            layout=layout,
            device=device,
            data=data,
            prepared=prepared,
            order=order,
            end=end,
            built=built,
            stepper=stepper,
            checkpoints=checkpoints,
            metrics=open_metrics(run, spec, plan, end.steps, device),
            events=events,
            stop=stop,
            profiler=Profiler(profile if device.rank == 0 else None, run.root / "profile", device.type),
            inputs=inputs_of(run),
            clock=Clock(place),
        )
        stepper.place = trainer.clock.place
        bound_collectives(patience)
        try:
            trainer.load()
            ended = trainer.loop()
            trainer.save(wait=True)
        finally:
            trainer.close()
    events.write("finished" if ended is TrainExit.FINISHED else "signal", step=trainer.progress.step, code=ended)
    return ended


class _Interrupted(Exception):
    """All ranks know that one of them was asked to stop."""


#: Of an evaluation. Each look is a tiny all-reduce.
_BATCHES_BETWEEN_LOOKS = 8


@dataclass
class Trainer:
    """One run on one rank, built and ready. ``load``, ``loop`` and ``save`` are collective."""

    spec: RunSpec
    layout: Layout
    device: Device
    data: DataRanks
    prepared: PreparedData
    order: GlobalOrder
    end: Horizon
    built: Built
    stepper: Stepper
    checkpoints: CheckpointManager
    metrics: Metrics
    events: EventLog
    stop: StopRequest
    profiler: Profiler
    inputs: dict[str, str | None] = field(default_factory=dict)
    """What every checkpoint belongs to: the digest of the data and the identity of the base model."""
    progress: Progress = field(default_factory=Progress)
    clock: Clock = field(default_factory=Clock)
    _suspects: list[tuple[Suspect, torch.Tensor]] = field(default_factory=list)
    _saved_at: float = field(default_factory=time.monotonic)
    _interrupted: bool = False
    _batches: Batches | None = None

    def load(self) -> None:
        """Go on from the newest good checkpoint, if there is one."""
        self.clock.place.at("load")
        found = self.checkpoints.newest()
        if found is not None:
            state = self._state()
            self.checkpoints.load(found, state)
            refuse_other_inputs(self.inputs, state["trainer"].get("inputs"), found.folder)
            self.stepper.restore(self.built.network, state)
            self.progress = take_counters(state["trainer"], self.stepper.scale)
            self._go_on_from_here()
        self.metrics.start_at(self.progress.step, self.progress.tokens)
        self.events.write(
            "started", step=self.progress.step, samples=self.progress.samples, steps=self.end.steps,
            parameters=self.built.total, trained=self.built.trained,
        )  # fmt: skip

    def loop(self) -> TrainExit:
        """Step until the end of the run, a request to stop, or early stopping."""
        if self.progress.evaluated_step != self.progress.step in (0, self.end.steps):
            self.evaluate()  # the baseline, or what a request to stop kept from being measured at the end
        if self._interrupted:
            return self._leave()
        if self.progress.gives_up(self.spec.early_stopping):
            return TrainExit.FINISHED
        rate = self._schedule()
        agreement = Agreement(self.data.counts)
        self.clock.lap()
        batches = iter(self._open_batches())
        following = next(batches, None)
        self._propose(agreement, following)
        while (batch := following) is not None:
            self.clock.place.step = batch.step + 1
            with self.clock.phase("data"):
                agreed = agreement.result()
            if agreed.stop:
                return self._leave()
            if agreed.save:
                self.save()
            self.profiler.before(batch.step + 1)
            with self.clock.phase("compute"):
                gradients = self.stepper.gradients(batch.step, batch.micro_batches, agreed.valid_tokens, batch.rows)
            with self.clock.phase("data"):
                following = next(batches, None)
                self._propose(agreement, following)
            with self.clock.phase("optimizer"):
                lr = self.spec.optimizer.lr * rate(self.progress.updates)
                update = self.stepper.update(lr)
                if (balance := self.stepper.parallel.balance) is not None:
                    balance.after_step()
            self.profiler.after(batch.step + 1)
            self._account(batch, agreed.tokens, gradients, update.norm, update.applied)
            self._log(batch, gradients, agreed.valid_tokens, update.norm, lr)
            over = self._after_step()
            if self._interrupted:
                return self._leave()
            if over:
                return TrainExit.FINISHED
        return TrainExit.FINISHED

    def _leave(self) -> TrainExit:
        self.events.write("signal", signal=self.stop.name, step=self.progress.step)
        return TrainExit.RESUME_ME

    def save(self, *, wait: bool = False) -> None:
        """Save the state as it is now, once it is known to be finite."""
        self._settle()
        with self.clock.phase("checkpoint"):
            progress = self.progress
            best = progress.best_step if progress.best_step > 0 else None
            self.checkpoints.save(
                progress.step, progress.samples, progress.tokens, self._state(), wait=wait, best=best
            )
        self._saved_at = time.monotonic()

    def evaluate(self) -> bool:
        """Measure the held-out loss, if anything is held out; True when the run should stop early.

        A request to stop is not kept waiting: the evaluation is given up, and made when the run goes on at its end.
        """
        if not len(self.prepared.eval):
            return False
        self._settle()
        parallel, device = self.stepper.parallel, self.device
        move = self._mover()
        looked = itertools.count(1)

        def summed_loss(batch: Batch) -> tuple[torch.Tensor, int]:
            if next(looked) % _BATCHES_BETWEEN_LOOKS == 0 and asked_to_stop(self.stop):
                raise _Interrupted
            return self.stepper.loss(move(batch)), batch.valid_tokens * self.data.counts

        def over_ranks(totals: Totals) -> Totals:
            sums = torch.tensor(totals if self.data.adds else (0.0, 0.0), dtype=torch.float64)
            dist.all_reduce(sums)
            loss, targets = sums.tolist()
            return loss, targets

        at_most = self.spec.evaluate.batches
        with self.clock.phase("evaluate"), torch.no_grad():
            parallel.module.eval()
            try:
                result = held_out(
                    self.prepared.eval,
                    objective(self.spec, self.prepared, "eval", self._pad_to()),
                    summed_loss,
                    batch_size=self.layout.micro_batch_size,
                    at_most=at_most * self.spec.global_batch_size if at_most else None,
                    data_rank=self.data.rank,
                    data_ranks=self.data.size,
                    sum_over_ranks=over_ranks,
                    bytes_per_token=self.prepared.manifest.bytes_per_eval_token,
                )
            except _Interrupted:
                result, self._interrupted = None, True
            parallel.rest()
            parallel.module.train()
        if result is None:
            return False
        done = self.progress
        self.metrics.evaluation(step=done.step, samples=done.samples, tokens=done.tokens, result=result.to_dict())
        if device.rank == 0:
            self.events.write("evaluated", step=done.step, eval_loss=result.eval_loss)
        return done.evaluated(result.eval_loss, self.spec.early_stopping)

    def close(self) -> None:
        """Stop the batch thread, write the profile and flush the sinks."""
        if self._batches is not None:
            self._batches.close()
        self.profiler.close()
        self.metrics.close()

    def _state(self) -> dict[str, Any]:
        """What a checkpoint holds. Collective."""
        values = {**counters(self.progress, self.stepper.scale), "inputs": self.inputs}
        return {**self.stepper.state(self.built.network), "trainer": values}

    def _go_on_from_here(self) -> None:
        """Count steps on from the samples consumed: after a short last step they are no multiple of the batch."""
        end, done = self.end, self.progress
        self.end = horizon(
            self.spec.duration, self.order.epoch_length, end.global_batch_size, end.sequence_length,
            end.tokens_per_sample, step=done.step, samples=done.samples,
        )  # fmt: skip
        self.metrics.steps = self.end.steps

    def _after_step(self) -> bool:
        """What is due after a step. True when the run should end before its end."""
        step, done = self.progress.step, self.progress.step == self.end.steps
        over = False
        if done or is_due(self.spec.evaluate.every, step, self.end, self.order.epoch_length):
            over = self.evaluate()
        best = self.progress.best_step == step  # the model may be made of it, so it must not be lost
        if (best or is_due(self.spec.checkpoint.every, step, self.end, self.order.epoch_length)) and not done:
            self.save()
        return over

    def _account(
        self, batch: StepBatch, tokens: int, gradients: Gradients, norm: torch.Tensor, applied: bool | None
    ) -> None:
        self.progress.step = batch.step + 1
        self.progress.samples = self.end.samples_before(batch.step + 1)
        self.progress.tokens += tokens
        if applied is None:
            self._suspects.append((Suspect.of(batch, gradients), norm))
        elif not applied:
            self.progress.skipped += 1
            if self.spec.nan == "stop" and self.stepper.scale.at_bottom:
                raise NonFinite(accuse(Suspect.of(batch, gradients), self.prepared.train.origins))

    def _settle(self) -> None:
        """Look at the steps that nobody has looked at yet, before anything is told about them or kept of them."""
        suspects, self._suspects = self._suspects, []
        if not suspects:
            return
        norms = torch.stack([norm for _, norm in suspects]).tolist()
        for (suspect, _), norm in zip(suspects, norms, strict=True):
            if not math.isfinite(norm):
                raise NonFinite(accuse(suspect, self.prepared.train.origins))

    def _log(self, batch: StepBatch, gradients: Gradients, valid_tokens: int, norm: torch.Tensor, lr: float) -> None:
        done = self.progress
        if done.step % self.spec.logging_steps and done.step != self.end.steps:
            return
        self._settle()
        loss = self._mean_loss(gradients, valid_tokens)
        seconds, phases = self.clock.lap()
        self.metrics.step(
            step=done.step,
            samples=done.samples,
            tokens=done.tokens,
            loss=loss,
            lr=lr,
            grad_norm=norm.item(),
            memory_bytes=self.device.peak_memory(),
            skipped=done.skipped,
            seconds=seconds,
            phases=phases,
            experts=None if (balance := self.stepper.parallel.balance) is None else balance.report(),
        )
        if done.step == 1:
            self.events.write("step", step=1)

    def _mean_loss(self, gradients: Gradients, valid_tokens: int) -> float:
        total = gradients.total.double()
        if self.data.group is not None:
            dist.all_reduce(total, group=self.data.group)
        return total.item() / valid_tokens if valid_tokens else 0.0

    def _propose(self, agreement: Agreement, following: StepBatch | None) -> None:
        every = self.spec.checkpoint.every
        late = every.unit == "time" and self.device.rank == 0 and time.monotonic() - self._saved_at >= every.value
        agreement.propose(following, stop=bool(self.stop), save=late)

    def _schedule(self) -> schedules.Ratio:
        lengths = schedules.phases(self.spec.schedule, self.end.steps, self.end.tokens_per_step)
        return schedules.ratio(self.spec.schedule, lengths)

    def _open_batches(self) -> Batches:
        self._batches = Batches(
            self.prepared.train,
            self.order,
            objective(self.spec, self.prepared, "train", self._pad_to()),
            Slicing(self.data, self.layout.micro_batch_size),
            self.end,
            self._mover(),
            first_step(self.progress),
        )
        return self._batches

    def _mover(self) -> Callable[[Batch], DeviceBatch]:
        kernel = choose_kernel(self.spec.attention, self.device.type, self.stepper.precision.compute)
        shape = (self.layout.micro_batch_size, self.spec.sequence_length) if self.layout.pp > 1 else None
        causal, multiple = self.spec.objective == "causal", self.layout.tp if self.layout.sequence_parallel else 1
        return device_mover(self.device.torch, causal, kernel == "flash", shape, self.data.context, multiple)

    def _pad_to(self) -> int | None:
        """Compiled blocks want one shape; otherwise a batch is as wide as its longest sequence."""
        return self.spec.sequence_length if self.spec.compile else None


def first_step(progress: Progress) -> int:
    """Number (0-based) of the first step to compute: the one after those that are done."""
    return progress.step
