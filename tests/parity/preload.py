"""Imports of every rank; forked, not repeated. What torch and transformers import at first use takes seconds, too."""

import importlib

for _name in (
    "torch._dynamo", "torch.distributed.checkpoint", "torch.distributed.pipelining", "peft",
    "transformers.models.llama.modeling_llama", "transformers.models.mixtral.modeling_mixtral",
    "trainwright.training.trainer", "parity.cases", "parity.mutants",
):  # fmt: skip
    importlib.import_module(_name)
