"""Decide what a file is from its name and first lines, and what a YAML or JSON document is from its keys.

Takes names and nodes, gives a language or a role. It reads nothing and knows no rule.
"""

from __future__ import annotations

import re
from typing import Literal

from trainwright.linter.documents import Role
from trainwright.linter.node import Node

Language = Literal["yaml", "json", "shell", "python", "markdown", "none"]

EXTENSIONS: dict[str, Language] = {
    ".yaml": "yaml", ".yml": "yaml", ".yaml-template": "yaml", ".yml-template": "yaml", ".json": "json",
    ".sh": "shell", ".bash": "shell", ".sbatch": "shell", ".slurm": "shell", ".srun": "shell", ".sub":
        "shell",
    ".py": "python", ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown",
}  # fmt: skip
_OF_OTHERS = (".toml", ".ini", ".cfg", ".lock", ".mk", "makefile", "dockerfile", "requirements.txt")
TEMPLATE_SUFFIXES = (".tmpl", ".tpl", ".template", ".j2", ".jinja", ".jinja2", ".in", ".envsubst", ".example")
FENCES: dict[str, Language] = {
    "yaml": "yaml", "yml": "yaml", "json": "json", "bash": "shell", "sh": "shell", "shell": "shell",
        "sbatch": "shell",
    "slurm": "shell", "zsh": "shell", "python": "python", "py": "python",
}  # fmt: skip

_DEEPSPEED = {
    "zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size",
    "zero_allow_untested_optimizer",
    "steps_per_print", "wall_clock_breakdown", "bf16", "fp16", "activation_checkpointing", "flops_profiler",
}  # fmt: skip
_ACCELERATE = {
    "compute_environment",
    "distributed_type",
    "machine_rank",
    "main_training_function",
    "fsdp_config",
    "deepspeed_config",
}
_TRAINING = {
    "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate", "num_train_epochs",
        "model_name_or_path",
    "output_dir", "save_steps", "lr_scheduler_type", "micro_batch_size", "base_model", "training_args",
        "train_args",
}  # fmt: skip
_HUB = {"singleuser", "hub", "proxy", "cull"}
_SPEC = {"objective", "method", "parallelism", "compute", "duration", "sequence_length", "data", "storage", "retry"}

_FIELDS = _SPEC | {
    "version", "name", "model", "lora", "global_batch_size", "micro_batch_size", "precision", "optimizer", "schedule",
    "clip", "seed", "recompute", "attention", "compile", "nan", "engine", "offload", "checkpoint", "evaluate",
    "early_stopping", "register", "tracking", "train", "target", "image", "env", "secrets",
}  # fmt: skip
"""Fields of a run's specification: a file of which most keys are others is none, whatever it shares."""
_MOST_KEYS = 500
"""No configuration has more at its top; vocabularies and indices have."""


def language_of(path: str, content: str) -> Language:
    """The language of a file: by extension (template suffixes aside), else by its first lines."""
    name = path.rsplit("/", 1)[-1].lower()
    for suffix in TEMPLATE_SUFFIXES:
        if name.endswith(suffix) and "." in name[: -len(suffix)]:
            name = name[: -len(suffix)]
    for extension, language in EXTENSIONS.items():
        if name.endswith(extension):
            return language
    return "none" if name.endswith(_OF_OTHERS) else sniff(content)


def sniff(content: str) -> Language:
    """The language of text without a telling name (standard input, an entry of a ConfigMap)."""
    head = content[:4000]
    first = head.lstrip().split("\n", 1)[0]
    if first.startswith("#!"):
        if "python" in first:
            return "python"
        return "shell" if re.search(r"\b(ba|z|k|da)?sh\b", first) else "none"
    if re.search(r"^#SBATCH\b", head, re.MULTILINE):
        return "shell"
    if re.search(r"^(apiVersion|kind|compute_environment|distributed_type)\s*:", head, re.MULTILINE):
        return "yaml"
    if first.startswith(("{", "[")):
        return "json"
    if re.search(r"^\s*(import \w+|from [\w.]+ import )", head, re.MULTILINE):
        return "python"
    if re.search(
        r"^\s*(?:(?:srun|torchrun|mpirun|accelerate launch|deepspeed)[ \t]|export \w+=|set -e\b)", head, re.MULTILINE
    ):
        return "shell"
    if first.startswith("# ") and "```" in content:
        return "markdown"
    return "yaml" if re.match(r"^[\w.-]+:(\s|$)", first) or first == "---" else "none"


def role_of(node: Node) -> Role | Literal["kubernetes"]:
    """What a YAML or JSON document is, by its top-level keys."""
    keys = set(node.keys())
    if {"apiVersion", "kind"} <= keys:
        return "kubernetes"
    if len(keys) > _MOST_KEYS:
        return "other"
    if len(keys & _ACCELERATE) >= 2 or ({"num_processes", "num_machines"} <= keys):
        return "accelerate"
    if (
        "zero_optimization" in keys
        or "train_micro_batch_size_per_gpu" in keys
        or ("train_batch_size" in keys and keys & (_DEEPSPEED - {"train_batch_size"}))
        or (keys & {"fp16", "bf16"} and node.get("fp16").type == "mapping")
    ):
        return "deepspeed"
    if {"v", "checksum"} <= keys:  # a sealed record that Trainwright wrote, such as a prepared data set's manifest
        return "other"
    # Other frameworks have `model`, `data` and `parallelism` too, but none of what names a run of ours.
    ours = keys & {"version", "name", "method", "objective", "duration"}
    enough = len(keys & _SPEC) >= 2 or ({"version", "name"} <= keys and keys & _SPEC)
    if ours and enough and keys & {"model", "train"} and 2 * len(keys & _FIELDS) >= len(keys):
        return "spec"
    if keys & _HUB and (node.get("singleuser").type == "mapping" or node.get("hub").type == "mapping"):
        return "helm-values"
    if keys & {"nodesets", "loginsets", "slurmKey"} or ("compute" in keys and node.get("compute", "nodesets").exists):
        return "helm-values"
    if len(keys & _TRAINING) >= 2:
        return "training"
    if keys and all(
        key.startswith(
            (
                "fsdp",
                "min_num_params",
                "backward_prefetch",
                "transformer_layer",
                "xla",
                "activation_",
                "limit_all",
                "sync_module",
                "cpu_ram",
                "use_orig",
                "forward_prefetch",
                "state_dict",
                "reshard",
                "version",
                "offload_params",
                "auto_wrap",
            )
        )
        for key in keys
    ):
        return "fsdp"
    return "other"
