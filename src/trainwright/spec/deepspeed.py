"""DeepSpeed's JSON: generated from a spec and a layout, and a user's own merged into it with every conflict named.

Takes plain values, gives a plain dict; imports neither torch nor deepspeed, so that rendering can write it. What the
spec says too can only be said alike, so batch arithmetic never disagrees; ``auto`` is what the spec says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts.data import read_rows
from trainwright.models.layout import Layout
from trainwright.spec.load import Loaded
from trainwright.spec.model import RunSpec

#: Types in which DeepSpeed computes; weights and optimizer state stay in fp32.
Computed = Literal["fp32", "bf16", "fp16"]
KeyPath = tuple[str, ...]

#: What the spec decides, and the field that does. Everything else in a user's file is theirs.
_FIELDS: dict[KeyPath, str] = {
    ("train_batch_size",): "global_batch_size",
    ("train_micro_batch_size_per_gpu",): "micro_batch_size",
    ("gradient_accumulation_steps",): "global_batch_size, micro_batch_size and the number of ranks",
    ("gradient_clipping",): "clip",
    ("zero_optimization", "stage"): "parallelism.zero",
    ("zero_optimization", "offload_optimizer", "device"): "offload.optimizer",
    ("zero_optimization", "offload_param", "device"): "offload.parameters",
    ("bf16", "enabled"): "precision",
    ("fp16", "enabled"): "precision",
    ("optimizer", "type"): "optimizer.name",
    ("optimizer", "params", "lr"): "optimizer.lr",
    ("optimizer", "params", "betas"): "optimizer.betas",
    ("optimizer", "params", "eps"): "optimizer.eps",
    ("optimizer", "params", "weight_decay"): "optimizer.weight_decay",
    ("optimizer", "params", "momentum"): "optimizer.momentum",
}
_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "lion": "Lion"}
_ZERO = "zero_optimization"


def deepspeed_config(
    spec: RunSpec, layout: Layout, computed: Computed, hidden: int, where: str = "deepspeed"
) -> dict[str, Any]:
    """The JSON of a run: the spec's values, over them what its own file (``spec.deepspeed``) adds.

    ``computed`` is the type that ``precision`` comes to, ``hidden`` the model's width. Raises InputError with every
    key of the file that contradicts the spec, is unknown, or would change what the trainer does.
    """
    config = generated(spec, layout, computed)
    own = spec.deepspeed or {}
    problems = [
        Problem(where, field=".".join(path), what=what, instead=way) for path, what, way in _wrong(own, config)
    ]
    automatic = _bucket_sizes(hidden)
    for path, value in _leaves(own):
        if (
            path in _FIELDS
            or path == (_ZERO,)
            or path[0] not in read_rows("deepspeed_keys")["top_level"]["passed_on"]
        ):
            continue
        if value == "auto":
            if path not in automatic:
                what, way = "is auto, and nothing says what that is here", "write a value or leave it out"
                problems.append(Problem(where, field=".".join(path), what=what, instead=way))
            value = automatic.get(path)
        _put(config, path, value)
    problems += [
        Problem(
            where,
            field=f"{_ZERO}.{name}.nvme_path",
            what="is missing, and the spec offloads to nvme",
            instead="name a folder on each node's own drives, in a file given as `deepspeed`",
        )
        for name in ("offload_optimizer", "offload_param")
        if config[_ZERO].get(name, {}).get("device") == "nvme" and not config[_ZERO][name].get("nvme_path")
    ]
    if problems:
        raise InputError(problems)
    return config


def refuse_contradictions(loaded: Loaded, layout: Layout) -> None:
    """InputError with everything in a spec's own JSON that its run would stop at, for those who plan."""
    spec = loaded.spec
    if spec.engine != "deepspeed":
        return
    own = spec.deepspeed or {}
    computed: str = spec.precision
    if computed == "auto":  # the device decides; what the file names may be it
        named = (kind for kind in ("bf16", "fp16") if (own.get(kind) or {}).get("enabled") is True)
        computed = next(named, "fp32")
    try:
        deepspeed_config(spec, layout, cast(Computed, computed), hidden=1)
    except InputError as error:
        raise InputError(
            replace(loaded.problem(("deepspeed",), found.what, found.instead), field=f"deepspeed.{found.field}")
            for found in error.problems
        ) from None


def generated(spec: RunSpec, layout: Layout, computed: Computed) -> dict[str, Any]:
    """What a spec says in DeepSpeed's words."""
    optimizer = spec.optimizer
    parameters: dict[str, Any] = {"lr": optimizer.lr, "weight_decay": optimizer.weight_decay}
    if optimizer.name == "sgd":
        parameters = {"lr": optimizer.lr, "momentum": optimizer.momentum}
    elif optimizer.name != "adafactor":
        parameters |= {"betas": list(optimizer.betas), "eps": optimizer.eps}
    if optimizer.name in ("adam", "adamw"):
        parameters["torch_adam"] = True
    zero: dict[str, Any] = {"stage": layout.zero}
    for name, device in (("offload_optimizer", spec.offload.optimizer), ("offload_param", spec.offload.parameters)):
        if device != "none":
            zero[name] = {"device": device, "pin_memory": True}
    config: dict[str, Any] = {
        "train_batch_size": layout.global_batch_size,
        "train_micro_batch_size_per_gpu": layout.micro_batch_size,
        "gradient_accumulation_steps": layout.micro_batches,
        "gradient_clipping": spec.clip or 0.0,
        "optimizer": {"type": _OPTIMIZERS.get(optimizer.name, optimizer.name), "params": parameters},
        _ZERO: zero,
        "zero_allow_untested_optimizer": True,
        # The trainer's optimizer groups parameters by decay; DeepSpeed's CPU one is built by a compiler when needed.
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 1_000_000_000,
    }
    if computed != "fp32":
        config[computed] = {"enabled": True}
    return config


def _bucket_sizes(hidden: int) -> dict[KeyPath, int]:
    """What ``auto`` is for the sizes that Hugging Face's Trainer fills in, by the same rules."""
    return {
        (_ZERO, "reduce_bucket_size"): hidden * hidden,
        (_ZERO, "stage3_prefetch_bucket_size"): int(0.9 * hidden * hidden),
        (_ZERO, "stage3_param_persistence_threshold"): 10 * hidden,
    }


def _wrong(own: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str, str]]:
    """Everything in a user's file that cannot stand: (key, what is wrong, what would be right)."""
    table = read_rows("deepspeed_keys")
    top, zero = table["top_level"], table[_ZERO]
    for key in own:
        if key in top["refused"]:
            yield (key,), f"is not passed on: {top['refused'][key]}", "remove it"
        elif key not in top["passed_on"]:
            yield (key,), "is no key that is passed on to DeepSpeed", did_you_mean(key, top["passed_on"])
    section = own.get(_ZERO, {})
    if not isinstance(section, Mapping):
        yield (_ZERO,), "is not a section", 'write for example {"stage": 2}'
        section = {}
    for key, value in section.items():
        if key in zero["refused"] and value not in (None, False, -1):
            yield (_ZERO, key), f"is not passed on: {zero['refused'][key]}", "remove it"
        if key not in zero["keys"] and key not in zero["retired"]:
            yield (_ZERO, key), "is no key of DeepSpeed's", did_you_mean(key, zero["keys"])
    for path, value in _leaves(own):
        if path not in _FIELDS or value == "auto":
            continue
        says = _get(config, path)
        if not _agree(path, value, says):
            shown = "not set" if says is None else repr(says)
            yield (
                path,
                f"is {value!r}, but by the spec's {_FIELDS[path]} it is {shown}",
                "remove it, or change the spec",
            )


def _agree(path: KeyPath, value: Any, says: Any) -> bool:
    if path[-1] == "enabled":
        return bool(value) == bool(says)
    if path[-1] == "device":
        return bool((None if value == "none" else value) == says)
    if path[-1] == "type":
        return str(value).lower() == str(says).lower()
    numbers = [float(x) for x in (value, says) if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) == 2:
        return abs(numbers[0] - numbers[1]) <= 1e-9 * max(map(abs, numbers))
    return bool(value == says)


def _leaves(values: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def _get(values: Mapping[str, Any], path: KeyPath) -> Any:
    for key in path:
        if not isinstance(values, Mapping) or key not in values:
            return None
        values = values[key]
    return values


def _put(values: dict[str, Any], path: KeyPath, value: Any) -> None:
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value
