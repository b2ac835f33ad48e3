"""The stage after training: choose, export, measure, decide, register. What is measured is what is registered.

Takes a run's folder; writes export/ and evaluation.json, and a version in the registry if the gate lets it. May be
run again after a crash: a model that is registered already is not registered twice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainwright.errors import AnswerNo, InputError, Problem
from trainwright.evaluation import results
from trainwright.evaluation.language_model import LanguageModel
from trainwright.evaluation.results import Evaluation
from trainwright.evaluation.samples import Sample, samples
from trainwright.registry.choose import Chosen, choose
from trainwright.registry.decision import Decision, decide
from trainwright.registry.export import Dtype, Exported, export
from trainwright.registry.measure import run_tasks, samples_before_and_after
from trainwright.registry.register import Registration, announce, register, registry_of
from trainwright.registry.store import check_name
from trainwright.runs.folder import ATTEMPT_VARIABLE, RunFolder
from trainwright.runs.progress import Progress, silent
from trainwright.spec.model import Register, RunSpec

_RANK = "f"  # of events: this stage runs once, after all ranks


@dataclass(frozen=True)
class Finished:
    """What the stage made."""

    evaluation: Evaluation
    exported: Exported
    decision: Decision
    registration: Registration | None = None

    def to_dict(self) -> dict[str, Any]:
        """The content of evaluation.json."""
        return {
            **self.evaluation.to_dict(),
            "exported": self.exported.to_dict(),
            "gate": self.decision.to_dict(),
            "registered": self.registration.to_dict() if self.registration else None,
        }


def finish(
    run: RunFolder,
    progress: Progress = silent,
    *,
    step: int | None = None,
    dtype: Dtype = "auto",
    settings: Register | None = None,
) -> Finished:
    """Finish a run of the built-in trainer; ``step`` takes another checkpoint than the best.

    ``settings`` replace the spec's own ``register`` section.

    SystemUnreachable before anything is evaluated when the registry cannot be written.
    AnswerNo when the gate refuses, after evaluation.json is written; SystemUnreachable when the model is registered
    but a remote registry cannot be told: run it again for that.
    """
    spec = run.spec()
    if settings is not None:
        spec = spec.model_copy(update={"register_": settings})
    if spec.register_ is not None:
        registry_of(run, spec.register_).refuse_unwritable(spec.register_.name)
    progress("choosing a checkpoint", 0, None)
    measured = results.points(run.metrics)
    chosen = choose(run.checkpoints, measured, step=step)
    progress("exporting", 0, None)
    merge = spec.register_.merge if spec.register_ else True
    exported = export(run, spec, chosen.checkpoint, run.export, merge=merge, dtype=dtype)
    evaluation = evaluate(run, spec, chosen, progress)
    done = Finished(evaluation, exported, decide(spec.evaluate.gate, evaluation.metrics))
    _record(run, done)
    if not done.decision.holds:
        raise AnswerNo(
            f"the gate refused the model: {done.decision.sentence}",
            f"it is not registered; it stays in {run.export}, and {run.evaluation} holds every number",
        )
    if spec.register_ is None:
        return done
    progress("registering", 0, None)
    done = replace(done, registration=register(run, spec, chosen.checkpoint, exported, evaluation, done.decision))
    _record(run, done)
    assert done.registration is not None
    done = replace(done, registration=announce(spec, done.registration, evaluation))
    _record(run, done)
    return done


def evaluate(run: RunFolder, spec: RunSpec, chosen: Chosen, progress: Progress = silent) -> Evaluation:
    """Tasks and samples of the exported model, with the held-out losses that training measured."""
    measured, step = results.points(run.metrics), chosen.checkpoint.step
    evaluation = Evaluation(
        run.run_id,
        step,
        chosen.why,
        baseline=measured.get(0),
        held_out=measured.get(step),
        notes=tuple(f"damaged and passed over: {text}" for text in chosen.damaged),
    )
    if not spec.evaluate.tasks and not spec.evaluate.samples:
        return evaluation
    model = LanguageModel.load(run.export, masked=spec.objective == "masked")
    tasks = run_tasks(spec, model, progress)
    told = samples_before_and_after(run, spec, model, run.export, progress)
    return replace(evaluation, tasks=tasks, samples=told)


def _record(run: RunFolder, done: Finished) -> None:
    results.write(run.evaluation, done.to_dict())
    attempt = int(os.environ.get(ATTEMPT_VARIABLE, "0") or 0)
    registered = done.registration.to_dict() if done.registration else None
    run.event_log(attempt, _RANK).write(
        "evaluated", step=done.evaluation.step, gate=done.decision.sentence, registered=registered
    )


def export_run(
    run: RunFolder, target: Path | None = None, step: int | None = None, merge: bool = True, dtype: Dtype = "auto"
) -> Exported:
    """Export the best checkpoint, or that of ``step``, into the run's own folder or another one."""
    chosen = choose(run.checkpoints, results.points(run.metrics), step=step)
    return export(run, run.spec(), chosen.checkpoint, target or run.export, merge=merge, dtype=dtype)


def write_samples(
    run: RunFolder,
    prompts: Sequence[str],
    tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    chat: bool = False,
    progress: Progress = silent,
) -> list[Sample]:
    """Complete prompts with a run's finished model; the best checkpoint is exported first when there is none yet."""
    if not any((run.export / name).is_file() for name in ("config.json", "adapter_config.json")):
        export_run(run)
    masked = run.spec().objective == "masked"
    model = LanguageModel.load(run.export, masked=masked)
    progress("writing", 0, None)
    texts = samples(prompts, model, tokens, masked=masked, chat=chat, temperature=temperature, seed=seed)
    return [Sample(prompt, text) for prompt, text in zip(prompts, texts, strict=True)]


def settings_with(
    spec: RunSpec,
    name: str | None,
    aliases: tuple[str, ...],
    registry: Path | None,
    hub: str | None,
    mlflow: str | None,
) -> Register:
    """The spec's ``register`` section with what the command line says over it. InputError when no name is known."""
    own = spec.register_
    if own is None and name is None:
        instead = "write register: NAME in the spec, or say --name NAME"
        raise InputError([Problem("register", field="name", what="is not known", instead=instead)])
    values: dict[str, Any] = own.model_dump() if own else {}
    said = {"name": name, "path": str(registry.absolute()) if registry else None, "hub": hub, "mlflow": mlflow}
    values |= {key: value for key, value in said.items() if value is not None}
    values["aliases"] = tuple(dict.fromkeys((*values.get("aliases", ("latest",)), *aliases)))
    check_name(str(values["name"]))
    return Register.model_validate(values)
