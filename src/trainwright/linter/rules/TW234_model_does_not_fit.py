"""TW234: a model larger than the memory of one device, in a run that shards nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.facts import models
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.machines import machines
from trainwright.linter.view.trainer import TrainerArguments

_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,3}(?:\.\d)?)b(?![a-z0-9])")
_SPLITS = re.compile(
    r"deepspeed|fsdp|tensor|pipeline|(^|_)(tp|pp|ep|cp)(_|$)|zero|shard|parallel|quant|4bit|8bit|qlora|load_in|offload"
    r"|device_map|megatron|config|(^|\.)model\b.*degree|gptq|awq|bits"
)
_ADAPTERS = re.compile(r"lora|peft|adapter|freeze|prefix|prompt_tuning|ia3")


class ModelDoesNotFit(TrainerRule):
    """Every process of a data-parallel run holds the whole model."""

    id = "TW234"
    severity = "warning"
    category = "accelerators"
    summary = "a model that does not fit on one device, in a run that splits nothing"
    evidence = "knowledge"
    source = (
        "arithmetic: 2 bytes per weight in bf16; memory of accelerators in facts/accelerators.json; a NeuronCore of "
        "trn1 has 16 GiB (aws-neuron-sdk trn1-arch)"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Hugging Face runs whose options name a model of known size and nothing that would split it."""
        launch, model = subject.launch, subject.model
        if launch is None or model is None or not subject.is_hugging_face or launch.group is None:
            return
        if subject.file is not None or subject.deepspeed is not None or subject.accelerate is not None:
            return
        words = [name for name in subject.flags.used if name not in ("report_to",)]
        if launch.tool not in ("torchrun", "") or subject.flags.open or any(_SPLITS.search(word) for word in words):
            return
        if subject.imports("deepspeed", "bitsandbytes", "torch.distributed.fsdp"):
            return
        billions, memory = _billions(model.value), _memory(launch, project)
        if billions is None or memory is None:
            return
        needed = 2 * billions * 1e9
        if needed <= memory[0]:
            return
        yield self.hit(
            model,
            f"{model.value.rsplit('/', 1)[-1]} has {billions:g} billion weights, {needed / 2**30:.0f} GiB in bf16, "
            f"and {memory[1]} has {memory[0] / 2**30:.0f} GiB; no option splits the model, so every process holds "
            "all of it and runs out of memory while loading"
            + (" (adapters do not make the base model smaller)" if any(map(_ADAPTERS.search, words)) else ""),
            "--tensor_parallel_size (Neuron)" if launch.is_neuron else "--fsdp full_shard or --deepspeed with ZeRO-3",
        )


def _billions(name: str) -> float | None:
    """Weights by the model table, else by the size that is part of the name; None when neither says."""
    own = name.rstrip("/").rsplit("/", 1)[-1]
    row = models.find(name) or models.find(own)
    if row is not None and row.get("parameters"):
        return float(round(row["parameters"] / 1e9, 1))
    sizes = _SIZE.findall(own.lower())
    return float(sizes[0]) if len(sizes) == 1 and not re.search(r"\d+x\d", own.lower()) else None


def _memory(launch: JobLaunch, project: Project) -> tuple[float, str] | None:
    """Memory that one process can have at most, and what that is of; None when the machines are not known."""
    if launch.group is None:
        return None
    kinds = [kind for _, kind in machines(launch.job, launch.group, project)]
    if not kinds:
        return None
    largest = max(kinds, key=lambda kind: kind.accelerator.memory_nominal)
    memory = float(largest.accelerator.memory_nominal)
    if launch.is_neuron:
        cores = largest.neuron_cores or largest.count
        return memory * largest.count / cores, f"a NeuronCore of {largest.name}"
    return memory, f"a GPU of {largest.name}"
