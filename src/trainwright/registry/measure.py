"""Measure a trained model: held-out loss of a restored checkpoint, tasks and samples of a model that can generate.

Takes a run and its checkpoint or a loaded model; gives results. Decides nothing and writes nothing.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from trainwright.checkpoints.format import Checkpoint
from trainwright.data.prepared import PreparedData
from trainwright.errors import InputError, Problem
from trainwright.evaluation import results
from trainwright.evaluation.held_out import HeldOut, held_out
from trainwright.evaluation.language_model import LanguageModel
from trainwright.evaluation.lm_eval_source import run_lm_eval
from trainwright.evaluation.results import Evaluation, Point
from trainwright.evaluation.samples import Sample, samples
from trainwright.evaluation.tasks import TaskResult, run_task
from trainwright.registry.choose import choose
from trainwright.registry.export import export
from trainwright.registry.restore import model_of, restore
from trainwright.runs.folder import RunFolder
from trainwright.runs.progress import Progress
from trainwright.spec.model import RunSpec, Task


def measure(run: RunFolder, step: int | None, progress: Progress) -> Evaluation:
    """Held-out loss and tasks of the best checkpoint, or that of ``step``, computed anew. Writes nothing lasting."""
    spec = run.spec()
    chosen = choose(run.checkpoints, results.points(run.metrics), step=step)
    done = chosen.checkpoint.step
    progress("held-out loss", 0, None)
    held = measure_held_out(run, spec, chosen.checkpoint)
    evaluation = Evaluation(run.run_id, done, chosen.why, held_out=Point(done, held) if held else None)
    if not spec.evaluate.tasks:
        return evaluation
    with tempfile.TemporaryDirectory(prefix="trainwright-") as folder:
        # Through an export, as after training: what is measured is what a user of the model would load.
        exported = export(run, spec, chosen.checkpoint, Path(folder) / "model")
        model = LanguageModel.load(exported.folder)
        return replace(evaluation, tasks=run_tasks(spec, model, progress))


def measure_held_out(run: RunFolder, spec: RunSpec, checkpoint: Checkpoint) -> HeldOut | None:
    """Held-out loss of a checkpoint over the sequences that training evaluated on; None when nothing is held out."""
    import torch

    from trainwright.data.batch import Batch
    from trainwright.data.objectives import objective
    from trainwright.training.attention import choose_kernel
    from trainwright.training.batches import device_mover
    from trainwright.training.devices import current_device
    from trainwright.training.objective import Objective

    prepared = PreparedData.of_run(run.data)
    if not len(prepared.eval):
        return None
    device = current_device()
    network = restore(run, spec, checkpoint, own_attention=True).to(device.torch)
    kernel = choose_kernel("sdpa", device.type, torch.float32)
    module = Objective(network, kernel).eval()
    move = device_mover(device.torch, spec.objective == "causal")

    def summed_loss(batch: Batch) -> tuple[torch.Tensor, int]:
        return module(move(batch), 0.0)[1], batch.valid_tokens

    batches = spec.evaluate.batches
    with torch.no_grad():
        return held_out(
            prepared.eval,
            objective(spec, prepared, "eval"),
            summed_loss,
            batch_size=min(8, spec.global_batch_size),
            at_most=batches * spec.global_batch_size if batches else None,
            bytes_per_token=prepared.manifest.bytes_per_eval_token,
        )


def run_tasks(spec: RunSpec, model: LanguageModel, progress: Progress) -> tuple[TaskResult, ...]:
    """Every task of the spec, in order. InputError for a model that tasks cannot be put to."""
    if spec.evaluate.tasks and spec.objective == "masked":
        instead = "remove evaluate.tasks; the held-out loss is measured all the same"
        problem = Problem(
            "spec.yaml", field="evaluate.tasks", what="need a model that predicts next tokens", instead=instead
        )
        raise InputError([problem])
    return tuple(_run(task, model, progress) for task in spec.evaluate.tasks)


def _run(task: Task, model: LanguageModel, progress: Progress) -> TaskResult:
    return run_lm_eval(task, model) if task.kind == "lm_eval" else run_task(task, model, progress)


def samples_before_and_after(
    run: RunFolder, spec: RunSpec, model: LanguageModel, tokenizer: Path, progress: Progress
) -> tuple[Sample, ...]:
    """The spec's prompts, continued by the model and by the one that training began with, if it had real weights."""
    prompts, masked, chat = spec.evaluate.samples, spec.objective == "masked", spec.evaluate.chat
    if not prompts:
        return ()
    assert spec.model is not None
    progress("samples", 0, len(prompts))
    after = samples(prompts, model, spec.evaluate.sample_tokens, masked=masked, chat=chat)
    before: list[str] | None = None
    if not spec.model.from_scratch:
        base = LanguageModel.load(model_of(run, spec), masked=masked, tokenizer=tokenizer)
        before = samples(prompts, base, spec.evaluate.sample_tokens, masked=masked, chat=chat)
    progress("samples", len(prompts), len(prompts))
    return tuple(
        Sample(prompt, text, before[number] if before else None)
        for number, (prompt, text) in enumerate(zip(prompts, after, strict=True))
    )
