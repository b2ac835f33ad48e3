"""What the verbs of this room print: numbers and places in a few lines."""

from __future__ import annotations

from trainwright.evaluation.held_out import HeldOut
from trainwright.evaluation.tasks import TaskResult
from trainwright.registry.finish import Finished
from trainwright.registry.register import Registration


def finished_lines(done: Finished) -> list[str]:
    """The stage after training, line by line."""
    evaluation = done.evaluation
    lines = [f"step {evaluation.step}: {evaluation.chosen}"]
    if evaluation.held_out:
        before = f" (before: {evaluation.baseline.result.eval_loss:.4f})" if evaluation.baseline else ""
        lines.append(held_out_line(evaluation.held_out.result) + before)
    lines += [task_line(task) for task in evaluation.tasks]
    lines += list(evaluation.notes)
    lines.append(f"gate: {done.decision.sentence}")
    lines.append(f"model: {done.exported.folder}")
    if done.registration:
        lines += registration_lines(done.registration)
    return lines


def held_out_line(result: HeldOut) -> str:
    """Loss, perplexity and bits per byte."""
    bits = f", {result.bits_per_byte:.4f} bits per byte" if result.bits_per_byte is not None else ""
    tokens = f"{result.eval_tokens:,} tokens"
    return f"held-out loss {result.eval_loss:.4f}, perplexity {result.perplexity:.4g}{bits}, {tokens}"


def task_line(task: TaskResult) -> str:
    """Name, score and how sure it is."""
    error = f" ± {task.standard_error:.4f}" if task.standard_error is not None else ""
    return f"{task.name}: {task.metric} {task.score:.4f}{error} over {task.rows:,} rows"


def registration_lines(registration: Registration) -> list[str]:
    """Where the model is registered, and under which names."""
    version = registration.version
    names = f" ({', '.join(registration.aliases)})" if registration.aliases else ""
    lines = [f"registered: {version.record.name} version {version.number}{names}, {version.folder}"]
    lines += [f"mlflow: {registration.mlflow}"] if registration.mlflow else []
    return lines + ([f"hub: {registration.hub}"] if registration.hub else [])
