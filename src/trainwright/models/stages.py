"""Which families a pipeline may cut, and how many blocks each of its stages gets. Standard library only."""

from __future__ import annotations

from functools import cache

#: Families whose stages, one after the other, compute what the whole model does (tests/training/test_stage.py).
IN_STAGES = frozenset(
    {
        "bert", "deepseek_v2", "deepseek_v3", "gemma", "gemma2", "gemma3", "gpt2", "gpt_neox", "gptj",
        "llama", "mistral", "mixtral", "olmo2", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe",
        "roberta", "smollm3",
    }
)  # fmt: skip


@cache
def balanced_stages(layers: int, stages: int, first: float = 0.0, last: float = 0.0) -> tuple[int, ...]:
    """Blocks of each stage in model order, so that the most expensive stage costs least.

    ``first`` and ``last`` are what the ends cost beside their blocks (embedding, head), in blocks. Of stages that
    cost the same, those in the middle get more. No stage stays empty while there are blocks enough.
    """
    cost = [0.0] * stages
    cost[0] += first
    cost[-1] += last
    counts = [0] * stages
    for number in range(layers):
        empty = number < stages <= layers
        index = min(
            (i for i in range(stages) if not empty or not counts[i]),
            key=lambda i: (cost[i], i == stages - 1, i == 0, i),
        )
        counts[index] += 1
        cost[index] += 1
    return tuple(counts)
