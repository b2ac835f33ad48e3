"""Rules that tie several fields of a spec together. Each yields (path, what is wrong, what would be right)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.spec.gate import GateError, parse_gate
from trainwright.spec.model import RunSpec
from trainwright.spec.section import SecretRef
from trainwright.spec.units import Amount
from trainwright.spec.yaml_reader import Path

Violation = tuple[Path, str, str]

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@")
_SECRET_NAME = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY)($|_)", re.IGNORECASE)


def violations(spec: RunSpec) -> Iterator[Violation]:
    """Everything about a well-typed spec that cannot be meant."""
    yield from _what_is_trained(spec)
    yield from _amounts(spec)
    yield from _batch(spec)
    yield from _evaluation(spec)
    yield from _engine(spec)
    yield from _environment(spec)


def _what_is_trained(spec: RunSpec) -> Iterator[Violation]:
    if spec.train is None:
        if spec.model is None:
            yield ("model",), "is missing", "name a folder or a Hub id, or give your own script as train.script"
        if spec.data is None:
            yield ("data",), "is missing", "name at least one source, or give your own script as train.script"
    if spec.method == "lora" and spec.model and spec.model.from_scratch:
        yield (
            ("method",),
            "is lora but model.from_scratch is true",
            "train adapters on real weights, or use method: full",
        )
    if spec.method == "qlora" and spec.train is None:
        yield (
            ("method",),
            "is qlora: kernels for CUDA keep its base in 4 bits, and the built-in trainer has none",
            "use method: lora, or your own script as train.script, which is planned for 4 bits",
        )
    if spec.method == "full" and "lora" in spec.model_fields_set and spec.lora != type(spec.lora)():
        yield ("lora",), "is set but method is full", "add method: lora, or remove this section"
    if spec.objective == "causal" and spec.masked != type(spec.masked)():
        yield ("masked",), "is set but objective is causal", "add objective: masked, or remove this section"


def _amounts(spec: RunSpec) -> Iterator[Violation]:
    if spec.duration.unit == "time":
        yield (
            ("duration",),
            f"is a time ({spec.duration})",
            "write steps, tokens or epochs; the schedule needs a known end",
        )
    for path, amount in (
        (("schedule", "warmup"), spec.schedule.warmup),
        (("schedule", "decay"), spec.schedule.decay),
    ):
        if isinstance(amount, Amount):
            if amount.unit not in ("steps", "tokens"):
                yield path, f"is in {amount.unit}", "write steps, tokens or a share of the run"
            elif amount.unit == spec.duration.unit and amount.value > spec.duration.value:
                yield path, f"({amount}) is longer than the run ({spec.duration})", "shorten it or lengthen duration"
    if spec.checkpoint.every.unit == "epochs":
        yield ("checkpoint", "every"), "is in epochs", "write steps, tokens or minutes"
    if spec.evaluate.every and spec.evaluate.every.unit == "time":
        yield (
            ("evaluate", "every"),
            "is a time",
            "write steps, tokens or epochs: ranks must agree on when to evaluate",
        )


def _batch(spec: RunSpec) -> Iterator[Violation]:
    micro = spec.micro_batch_size
    forced = spec.parallelism
    data_parallel = (forced.dp_replicate or 1) * (forced.dp_shard or 1)
    unit = data_parallel * (micro if isinstance(micro, int) else 1)
    if spec.global_batch_size % unit:
        low = spec.global_batch_size // unit * unit
        near = f"{low} or {low + unit}" if low else str(unit)
        parts = f"dp_replicate · dp_shard = {data_parallel}" + (
            f" and micro_batch_size {micro}" if micro != "auto" else ""
        )
        yield (
            ("global_batch_size",),
            f"is {spec.global_batch_size}, not a multiple of {unit} ({parts})",
            f"write {near}",
        )


def _evaluation(spec: RunSpec) -> Iterator[Violation]:
    if spec.early_stopping and spec.evaluate.every is None:
        yield ("early_stopping",), "needs evaluate.every", "say how often the held-out loss is measured"
    held_out = spec.data is not None and (spec.data.eval_fraction > 0 or bool(spec.data.eval_sources))
    if spec.early_stopping and spec.data is not None and not held_out:
        yield ("early_stopping",), "needs held-out data", "set data.eval_fraction or data.eval_sources"
    names = {task.name for task in spec.evaluate.tasks}
    if spec.evaluate.gate is not None:
        try:
            gate = parse_gate(spec.evaluate.gate)
        except GateError as error:
            yield ("evaluate", "gate"), str(error), "write for example: eval_loss < baseline"
        else:
            measured = ["eval_loss", "perplexity", "baseline"]
            measured += ["bits_per_byte"] if spec.objective == "causal" else []
            unknown = sorted(gate.names - names - set(measured))
            if unknown:
                known = ", ".join([*measured, *sorted(names)])
                yield ("evaluate", "gate"), f"names {', '.join(unknown)}, which nothing measures", f"use {known}"
            if spec.data is not None and not held_out and gate.names - names:
                yield ("evaluate", "gate"), "needs held-out data", "set data.eval_fraction or data.eval_sources"
    for index, task in enumerate(spec.evaluate.tasks):
        if task.kind != "lm_eval" and task.path is None:
            yield ("evaluate", "tasks", index, "path"), "is missing", f"a {task.kind} task needs a JSONL file"
    if len(names) != len(spec.evaluate.tasks):
        yield ("evaluate", "tasks"), "has two tasks of one name", "give each its own name"


def _engine(spec: RunSpec) -> Iterator[Violation]:
    if spec.engine == "deepspeed":
        for name in ("pp", "cp", "tp", "ep"):
            if (getattr(spec.parallelism, name) or 1) > 1:
                yield ("parallelism", name), "is more than 1 with engine: deepspeed", "use engine: native, or 1"
    elif spec.deepspeed is not None:
        yield ("deepspeed",), "is set but engine is native", "add engine: deepspeed, or remove this file"
    elif spec.offload.parameters == "nvme" or spec.offload.optimizer == "nvme":
        yield ("offload",), "names nvme, which engine: native cannot do", "use cpu, or engine: deepspeed"
    # State is sharded over dp_shard · cp; DeepSpeed's ZeRO keeps the fp32 weights, and offloads, on one rank too.
    alone = spec.parallelism.dp_shard == 1 and (spec.parallelism.cp or 1) == 1 and spec.engine == "native"
    if (spec.parallelism.zero or 0) > 0 and alone:
        yield (
            ("parallelism", "zero"),
            f"is {spec.parallelism.zero} but dp_shard is 1",
            "raise dp_shard (or cp) or use zero: 0",
        )


def _environment(spec: RunSpec) -> Iterator[Violation]:
    for section, names in (("env", spec.env), ("secrets", spec.secrets)):
        for name in names:
            if not _ENV_NAME.fullmatch(name):
                yield (section, name), "is no name of an environment variable", "use letters, digits and _"
    for name in spec.env:
        if _SECRET_NAME.search(name) and spec.env[name]:
            yield ("env", name), "looks like a secret written out", f"use secrets: {{{name}: {{env: {name}}}}}"
    for name in sorted(set(spec.env) & set(spec.secrets)):
        yield ("secrets", name), "is also set in env", "keep one of the two"
    references: list[tuple[Path, SecretRef]] = [(("secrets", name), ref) for name, ref in spec.secrets.items()]
    if spec.model and spec.model.token:
        references.append((("model", "token"), spec.model.token))
    if spec.register_ and spec.register_.token:
        references.append((("register", "token"), spec.register_.token))
    for path, ref in references:
        if sum(value is not None for value in (ref.env, ref.file, ref.kubernetes)) != 1:
            yield path, "does not name exactly one place", "write one of env, file, kubernetes"
    address = spec.register_.mlflow if spec.register_ else None
    if address and _PASSWORD.search(address):
        instead = "leave it out, and put MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD under secrets"
        yield ("register", "mlflow"), "holds a password", instead
