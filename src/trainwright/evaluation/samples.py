"""Samples: what a model writes after the user's prompts, before and after training.

Takes prompts and a language model; gives texts, the same on every machine with the same weights and precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainwright.evaluation.language_model import LanguageModel, Prompt


@dataclass(frozen=True)
class Sample:
    """A prompt and its continuation; ``before`` is the untrained model's, None when it was not asked."""

    prompt: str
    text: str
    before: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)


def samples(
    prompts: Sequence[str],
    model: LanguageModel,
    tokens: int,
    *,
    masked: bool = False,
    chat: bool = False,
    temperature: float = 0.0,
    seed: int = 0,
) -> list[str]:
    """A continuation of each prompt; for a masked model the prompt with its mask tokens filled in.

    ``chat`` puts each prompt as a user's turn through the tokenizer's chat template. Without a temperature the
    continuation is the likeliest, token by token.
    """
    if masked:
        return [model.fill(prompt) for prompt in prompts]
    asked: list[Prompt] = [({"role": "user", "content": prompt},) if chat else prompt for prompt in prompts]
    return model.complete(asked, tokens, temperature=temperature, seed=seed)
