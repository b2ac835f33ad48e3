"""TW806: one value in the DeepSpeed file, another on the command line."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Absent, Known
from trainwright.linter.view.trainer import TrainerArguments

_PAIRS: tuple[tuple[tuple[str, ...], tuple[str, ...], float], ...] = (
    (("train_micro_batch_size_per_gpu",), ("per_device_train_batch_size",), 8),
    (("gradient_accumulation_steps",), ("gradient_accumulation_steps",), 1),
    (("gradient_clipping",), ("max_grad_norm",), 1.0),
    (("optimizer", "params", "lr"), ("learning_rate",), 5e-5),
    (("optimizer", "params", "eps"), ("adam_epsilon",), 1e-8),
    (("optimizer", "params", "weight_decay"), ("weight_decay",), 0.0),
    (("scheduler", "params", "warmup_max_lr"), ("learning_rate",), 5e-5),
)
"""DeepSpeed's key, the Trainer's option, and the Trainer's default."""


class DeepspeedContradictsArguments(TrainerRule):
    """The Hugging Face Trainer compares both and refuses to start when they differ."""

    id = "TW806"
    severity = "error"
    category = "frameworks"
    summary = "the DeepSpeed file and the trainer's arguments state different values"
    evidence = "verified"
    source = (
        "transformers/integrations/deepspeed.py, HfTrainerDeepSpeedConfig.trainer_config_process (5.24):"
        " ValueError on any mismatch; hendrycks/apps#9"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Every pair that is stated twice."""
        config, guessed = subject.deepspeed, False
        if config is None and subject.nearby is not None and subject.launch is not None:
            config, guessed = subject.nearby.node, True
        if config is None or not subject.is_hugging_face:
            return
        for path, names, default in _PAIRS:
            node = config.get(*path)
            number = node.number
            if number is None:
                continue
            stated = subject.decimal(*names)
            value = default if isinstance(stated, Absent) else stated.known
            if value is None or abs(value - number) <= 1e-9 * max(abs(value), abs(number)):
                continue
            option = names[0]
            if isinstance(stated, Absent) and (subject.launch is None or guessed):
                continue
            says = f"--{option} is {value:g}" if isinstance(stated, Known) else f"--{option} is not given ({value:g})"
            yield self.hit(
                node,
                f"{'.'.join(path)} is {node.raw}, but {says}: the Hugging Face Trainer compares the two and stops "
                f"with a ValueError on every rank"
                + (" (if this is the file that the command names: no other is in sight)" if guessed else ""),
                f'"auto" in the DeepSpeed file, so that --{option} decides',
                severity=None if isinstance(stated, Known) and not guessed else "warning",
                fix=[node.span.edit('"auto"')]
                if subject.deepspeed_file is not None and subject.deepspeed_file.json
                else (),
            )
        yield from self._precision(subject)
        yield from self._total(subject)
        yield from self._schedule(subject)

    def _precision(self, subject: TrainerArguments) -> Iterator[Hit]:
        """``bf16`` and ``fp16``: both sides state a switch."""
        for name in ("bf16", "fp16"):
            node = subject.deepspeed.get(name, "enabled") if subject.deepspeed is not None else None
            stated = subject.switch(name)
            other = subject.switch("fp16" if name == "bf16" else "bf16")
            if isinstance(stated, Absent) and isinstance(other, Known) and other.value:
                stated = Known(
                    False, other.span
                )  # Only one of the two can be on, also where trl has bf16 by default.
            if node is None or node.boolean is None or not isinstance(stated, Known) or stated.value == node.boolean:
                continue
            yield self.hit(
                node,
                f"{name}.enabled is {str(node.boolean).lower()}, but --{name} is {str(stated.value).lower()}: the "
                f"Hugging Face Trainer stops with a ValueError on every rank",
                f'"enabled": "auto" in the DeepSpeed file, so that --{name} decides',
            )

    def _total(self, subject: TrainerArguments) -> Iterator[Hit]:
        """``train_batch_size`` is the product of the Trainer's numbers and the world size."""
        node = subject.deepspeed.get("train_batch_size") if subject.deepspeed is not None else None
        micro = subject.number("per_device_train_batch_size").known
        steps = subject.number("gradient_accumulation_steps")
        accumulation = 1 if isinstance(steps, Absent) else steps.known
        if node is None or node.integer is None or not micro or not accumulation or not subject.processes:
            return
        product = micro * accumulation * subject.processes
        if product != node.integer:
            yield self.hit(
                node,
                f"train_batch_size is {node.integer}, but {micro} per device × {accumulation} accumulation steps × "
                f"{subject.processes} processes is {product}: the Trainer stops with a ValueError on every rank",
                '"train_batch_size": "auto"',
            )

    def _schedule(self, subject: TrainerArguments) -> Iterator[Hit]:
        """The scheduler's steps: compared when training begins."""
        params = subject.deepspeed.get("scheduler", "params") if subject.deepspeed is not None else None
        for key, option in (("total_num_steps", "max_steps"), ("warmup_num_steps", "warmup_steps")):
            node = params.get(key) if params is not None else None
            stated = subject.number(option)
            if node is None or node.integer is None or not isinstance(stated, Known):
                continue
            if stated.value > 0 and stated.value != node.integer:
                yield self.hit(
                    node,
                    f"scheduler.params.{key} is {node.raw}, but --{option} is {stated.value}: the Hugging Face "
                    "Trainer compares the two and stops with a ValueError on every rank",
                    f'"auto" in the DeepSpeed file, so that --{option} decides',
                )
