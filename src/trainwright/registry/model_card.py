"""The model card: a README.md in the Hub's format, written from what was measured.

Takes the spec, the evaluation and the lineage; gives text. No network, and no path of the machine it was made on.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from trainwright.errors import MissingExtra
from trainwright.evaluation.results import Evaluation
from trainwright.registry.decision import Decision
from trainwright.spec.model import RunSpec
from trainwright.spec.paths import is_local

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)


def model_card(
    name: str,
    spec: RunSpec,
    evaluation: Evaluation,
    decision: Decision,
    lineage: dict[str, Any],
    *,
    adapter_only: bool,
) -> str:
    """Text of README.md."""
    try:
        from huggingface_hub import ModelCardData
    except ImportError:
        raise MissingExtra("a model card", "train") from None
    assert spec.model is not None
    base = None if is_local(spec.model.path) or spec.model.path.startswith("s3://") else spec.model.path
    card = ModelCardData(
        model_name=name,
        base_model=base,
        license=_license(spec),
        library_name="peft" if adapter_only else "transformers",
        pipeline_tag="fill-mask" if spec.objective == "masked" else "text-generation",
        tags=["trainwright", *(["lora"] if spec.method == "lora" else [])],
        eval_results=_eval_results(spec, evaluation) or None,
    )
    sections = [
        f"# {_plain(name)}\n\n{_summary(spec)}",
        _use(spec, adapter_only),
        _evaluation(evaluation, decision),
        _training(spec, lineage),
        _samples(evaluation),
        _provenance(lineage),
    ]
    body = "\n\n".join(section for section in sections if section)
    return f"---\n{card.to_yaml().strip()}\n---\n\n{body}\n"


def _license(spec: RunSpec) -> str | None:
    """As the spec says, else as the base model's own card says."""
    assert spec.model is not None
    if spec.register_ and spec.register_.license:
        return spec.register_.license.lower()
    readme = Path(spec.model.path) / "README.md"
    if not is_local(spec.model.path) or not readme.is_file():
        return None
    front = _FRONT_MATTER.match(readme.read_text(errors="replace"))
    said = re.search(r"^license:\s*['\"]?([\w.-]+)", front[1], re.MULTILINE) if front else None
    return said[1] if said else None


def _eval_results(spec: RunSpec, evaluation: Evaluation) -> list[Any]:
    from huggingface_hub import EvalResult

    kind = "fill-mask" if spec.objective == "masked" else "text-generation"
    found = []
    if evaluation.held_out:
        result = evaluation.held_out.result
        for metric, value in (("loss", result.eval_loss), ("perplexity", result.perplexity)):
            found.append(EvalResult(kind, "text", "held-out text", metric, round(value, 6)))
    for task in evaluation.tasks:
        found.append(EvalResult(kind, task.kind, task.name, task.metric, round(task.score, 6)))
    return found


def _summary(spec: RunSpec) -> str:
    assert spec.model is not None
    base = f"`{_last(spec.model.path)}`"
    if spec.model.from_scratch:
        return f"Trained from random weights with the architecture of {base}."
    how = "with LoRA adapters" if spec.method == "lora" else "in all its weights"
    return f"{base}, trained further {how}."


def _use(spec: RunSpec, adapter_only: bool) -> str:
    auto = "AutoModelForMaskedLM" if spec.objective == "masked" else "AutoModelForCausalLM"
    note = "\n\nThe folder holds adapters: `peft` and the base model are needed to load it." if adapter_only else ""
    return (
        "## Use\n\n```python\n"
        f"from transformers import AutoTokenizer, {auto}\n\n"
        f"model = {auto}.from_pretrained(FOLDER)\n"
        "tokenizer = AutoTokenizer.from_pretrained(FOLDER)\n```" + note
    )


def _evaluation(evaluation: Evaluation, decision: Decision) -> str:
    rows: list[tuple[str, str, str]] = []
    before = evaluation.baseline.result if evaluation.baseline else None
    after = evaluation.held_out.result if evaluation.held_out else None
    if after:
        for label, field in (("loss", "eval_loss"), ("perplexity", "perplexity"), ("bits per byte", "bits_per_byte")):
            old, new = (_number(getattr(result, field) if result else None) for result in (before, after))
            if new != "–":
                rows.append((f"held-out {label}", old, new))
    for task in evaluation.tasks:
        error = f" ± {task.standard_error:.4f}" if task.standard_error is not None else ""
        rows.append((f"{_plain(task.name)} ({task.metric}, {task.rows} rows)", "–", f"{task.score:.4f}{error}"))
    if not rows:
        return "## Evaluation\n\nNothing was measured."
    table = "\n".join(f"| {label} | {old} | {new} |" for label, old, new in rows)
    gate = f"\n\nGate: {_plain(decision.sentence)}." if decision.text else ""
    return f"## Evaluation\n\n| | before | after |\n|--|--:|--:|\n{table}{gate}"


def _training(spec: RunSpec, lineage: dict[str, Any]) -> str:
    run = lineage["run"]
    lines = [
        f"- objective: {spec.objective}, method: {spec.method}"
        + (f" (rank {spec.lora.rank}, alpha {spec.lora.alpha:g})" if spec.method == "lora" else ""),
        f"- {run['step']} steps, {run['samples']} sequences of {spec.sequence_length} tokens, {run['tokens']} tokens",
        f"- {spec.optimizer.name}, peak learning rate {spec.optimizer.lr:g}, {spec.schedule.name} schedule, "
        f"global batch {spec.global_batch_size}, precision {spec.precision}, seed {spec.seed}",
    ]
    sources = (lineage.get("data") or {}).get("sources") or []
    lines += [f"- data: `{_last(s['path'])}`, {s['files']} files, {s['bytes']} bytes" for s in sources]
    return "## Training\n\n" + "\n".join(lines)


def _samples(evaluation: Evaluation) -> str:
    if not evaluation.samples:
        return ""
    blocks = [f"{_fenced(sample.prompt)}\n\ncontinues as\n\n{_fenced(sample.text)}" for sample in evaluation.samples]
    return "## Samples\n\n" + "\n\n".join(blocks)


def _provenance(lineage: dict[str, Any]) -> str:
    run, code = lineage["run"], lineage["code"]
    lines = [
        f"- run `{run['run_id']}`, spec sha256 `{run['spec_sha256']}`",
        f"- trainwright {code['trainwright']}, code sha256 `{code['sha256']}`",
        "- " + ", ".join(f"{name} {version}" for name, version in lineage["versions"].items()),
    ]
    if lineage.get("data"):
        lines.insert(1, f"- prepared data `{lineage['data']['digest']}`")
    return "## Provenance\n\n" + "\n".join(lines)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _last(path: str) -> str:
    """A Hub id as it is, and of a path the last name alone: a card may be published."""
    return _plain(Path(path).name if is_local(path) or "://" in path else path)


def _plain(text: str) -> str:
    """Text that means nothing to Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


def _fenced(text: str) -> str:
    """Text in a fence longer than any that it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}"
