"""Tasks of EleutherAI's lm-eval, by name, for those who installed it (extra ``lm-eval``).

Takes a task's name and a language model; gives a TaskResult. The only file that knows lm-eval.
"""

from __future__ import annotations

import math
from typing import Any

from trainwright.errors import InputError, MissingExtra, Problem, SystemUnreachable, did_you_mean
from trainwright.evaluation.language_model import LanguageModel
from trainwright.evaluation.tasks import TaskResult
from trainwright.spec.model import Task

#: The metric that stands for a task, the first one that it reports.
_PREFERRED = ("acc", "exact_match", "f1", "bleu", "rougeL", "mc2", "word_perplexity", "bits_per_byte")


def run_lm_eval(task: Task, model: LanguageModel) -> TaskResult:
    """Evaluate one lm-eval task or group. ``task.path`` is a folder of own task files; without it, lm-eval's own.

    Data sets that are not on this machine need the network: SystemUnreachable says so.
    """
    try:
        import lm_eval
        from lm_eval.models.huggingface import HFLM
        from lm_eval.tasks import TaskManager
    except ImportError:
        raise MissingExtra(f"task {task.name}: lm_eval", "lm-eval") from None
    manager = TaskManager(include_path=task.path)
    if task.name not in manager.all_tasks:
        instead = did_you_mean(task.name, manager.all_tasks) if len(task.name) > 1 else "give the task's name"
        raise InputError([Problem(task.path or "lm-eval", 0, 0, "", f"has no task {task.name}", instead[:200])])
    adapter = HFLM(pretrained=model.model, tokenizer=model.tokenizer, batch_size=model.batch_size)
    try:
        found: Any = lm_eval.simple_evaluate(
            model=adapter, tasks=[task.name], limit=task.limit, task_manager=manager, log_samples=False,
            bootstrap_iters=0,
        )  # fmt: skip
    except (ConnectionError, OSError) as error:
        raise SystemUnreachable(
            f"task {task.name}: its data could not be fetched ({_first_line(error)})",
            "run it once where there is a network and share that cache (HF_HOME), or give own task files as path",
        ) from error
    return _result(task, found)


def _result(task: Task, found: dict[str, Any]) -> TaskResult:
    values = found.get("groups", {}).get(task.name) or found["results"][task.name]
    metrics = {
        key.partition(",")[0]: float(value)
        for key, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and "_stderr" not in key and "," in key
    }
    if not metrics:
        raise InputError([Problem(task.name, what="reports no number", instead="name another task")])
    name = next((metric for metric in _PREFERRED if metric in metrics), next(iter(metrics)))
    error = next((v for k, v in values.items() if k.startswith(f"{name}_stderr,") and isinstance(v, float)), None)
    if error is not None and math.isnan(error):
        error = None
    rows = sum(int(count["effective"]) for count in found.get("n-samples", {}).values())
    also = {metric: value for metric, value in metrics.items() if metric != name}
    return TaskResult(task.name, "lm_eval", metrics[name], name, rows, error, also)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
