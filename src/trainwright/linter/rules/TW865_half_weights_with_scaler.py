"""TW865: fp16 weights and the scaler of mixed precision."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.trainer import TrainerArguments

_OTHER = ("use_lora", "use_peft", "lora", "lora_r", "load_in_8bit", "load_in_4bit", "quantization_bit", "deepspeed",
          "deepspeed_config", "fsdp", "finetuning_type", "q_lora", "bits")  # fmt: skip


class HalfWeightsWithScaler(TrainerRule):
    """Mixed precision keeps the weights in fp32; the scaler refuses gradients in fp16."""

    id = "TW865"
    severity = "error"
    category = "frameworks"
    summary = "a model loaded in fp16 and trained with fp16 mixed precision"
    evidence = "verified"
    source = (
        "torch/amp/grad_scaler.py (2.15), _unscale_grads_: ValueError Attempting to unscale FP16 gradients; "
        "Accelerate and the Hugging Face Trainer unscale before they clip"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """The weights' type and the switch, where no other engine keeps copies in fp32."""
        loaded = subject.text("torch_dtype", "dtype", "model_args.torch_dtype")
        asked = subject.switch("fp16")
        if not isinstance(loaded, Known) or loaded.value not in ("float16", "torch.float16", "fp16", "half"):
            return
        if not isinstance(asked, Known) or not asked.value or not subject.is_hugging_face:
            return
        if subject.deepspeed is not None or subject.states(*_OTHER) or subject.flags.has(*_OTHER):
            return
        launcher = subject.launch
        if launcher is not None and (launcher.tool == "deepspeed" or launcher.config is not None):
            return
        yield self.hit(
            loaded,
            f"the weights are loaded in {loaded.value}, so the gradients are fp16, and fp16 mixed precision refuses "
            'to unscale those: the first step ends with "Attempting to unscale FP16 gradients"',
            "no torch_dtype (fp32 weights under --fp16), or --bf16 with bfloat16 weights on Ampere and newer",
        )
