"""Which families tensor parallelism may cut, as planner and trainer both must know. Standard library only."""

from __future__ import annotations

#: Families that, cut over tensor ranks, compute what the whole model does (tests/parity/test_tensor.py). Others have
#: matrices without a rule (latent attention), or attention that is not transformers' interface.
CUT_BY_TENSOR = frozenset(
    {
        "bert", "gemma", "gemma2", "gemma3", "gpt2", "gpt_neox", "llama", "mistral", "mixtral", "olmo2", "opt", "phi",
        "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "roberta", "smollm3",
    }
)  # fmt: skip
