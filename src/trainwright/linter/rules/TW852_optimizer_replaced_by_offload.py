"""TW852: an optimizer that offloading to the CPU replaces."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.trainer import TrainerArguments


class OptimizerReplacedByOffload(TrainerRule):
    """Accelerate swaps torch's AdamW for DeepSpeed's CPU version."""

    id = "TW852"
    severity = "note"
    category = "frameworks"
    summary = "a torch optimizer that is replaced because its state is offloaded"
    evidence = "verified"
    source = (
        "huggingface/accelerate v1.14 src/accelerate/utils/deepspeed.py, map_pytorch_optim_to_deepspeed: lr and "
        "weight_decay are copied, betas and eps are not"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Torch optimizers of runs whose DeepSpeed file offloads the optimizer and names none itself."""
        config, guessed = subject.deepspeed, False
        if config is None and subject.nearby is not None:
            config, guessed = subject.nearby.node, True
        named = subject.text("optim", "optimizer")
        if config is None or not isinstance(named, Known) or config.get("optimizer").exists:
            return
        device = config.get("zero_optimization", "offload_optimizer", "device").string
        if device not in ("cpu", "nvme") or not named.value.startswith("adamw_torch"):
            return
        changed = [name for name in ("adam_beta1", "adam_beta2", "adam_epsilon") if subject.states(name)]
        yield self.hit(
            named,
            ("if it runs with the DeepSpeed file beside it, " if guessed else "")
            + f"the optimizer's state is offloaded to {device}, so Accelerate replaces {named.value} by "
            "DeepSpeedCPUAdam and copies the learning rate and weight decay only"
            + (f": {', '.join(changed)} are lost" if changed else ""),
            "an optimizer section in the DeepSpeed file with all its parameters, or no offload",
            severity="warning" if changed and not guessed else None,
        )
