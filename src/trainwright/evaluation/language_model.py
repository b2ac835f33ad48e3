"""A Hugging Face model and its tokenizer as something that scores continuations and completes prompts.

Takes a folder or Hub id that ``from_pretrained`` loads, or a model at hand. Everything is deterministic: greedy
unless a temperature and a seed are given. Knows nothing of runs, tasks or specs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.errors import InputError, MissingExtra, Problem

if TYPE_CHECKING:
    from torch import Tensor

Prompt = str | tuple[dict[str, str], ...]
Progress = Callable[[int, int], None]
_TOKENS_AT_A_TIME = 8192


def _silent(done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class LanguageModel:
    """A causal model (or a masked one, for ``fill``) in evaluation mode, with its tokenizer."""

    model: Any  # transformers.PreTrainedModel or peft.PeftModel
    tokenizer: Any
    batch_size: int = 8

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        masked: bool = False,
        tokenizer: str | Path | None = None,
        device: str | None = None,
    ) -> LanguageModel:
        """Load any folder in Hugging Face format, adapters too; fp32 on CPU, its own precision elsewhere.

        ``tokenizer`` is its folder, when it is another one. InputError when something cannot be loaded.
        """
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer
        except ImportError:
            raise MissingExtra("evaluating a model", "train") from None
        auto = AutoModelForMaskedLM if masked else AutoModelForCausalLM
        where = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            words = AutoTokenizer.from_pretrained(str(tokenizer or path))
            model = auto.from_pretrained(str(path), dtype=torch.float32 if where == "cpu" else "auto")
        except (OSError, ValueError) as error:
            raise InputError(
                [
                    Problem(
                        str(path),
                        what=f"is no model that can be loaded: {_first_line(error)}",
                        instead="name a folder with config.json, weights and tokenizer",
                    )
                ]
            ) from error
        return cls(model.to(where).eval(), words)

    def count_tokens(self, text: str) -> int:
        """Length of a text in tokens, without special ones."""
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]], progress: Progress = _silent) -> list[float]:
        """Log-probability of each continuation after its context: nats, summed over the continuation's tokens.

        Context and continuation are tokenised together, so that a word is cut as it is in running text. A context
        too long for the model loses its beginning.
        """
        encoded = [self._encode_pair(context, continuation) for context, continuation in pairs]
        order = sorted(range(len(encoded)), key=lambda number: len(encoded[number][0]), reverse=True)
        results = [0.0] * len(encoded)
        done = 0
        for numbers in _batches(order, [len(ids) for ids, _ in encoded]):
            scores = self._score([encoded[number] for number in numbers])
            for number, score in zip(numbers, scores, strict=True):
                results[number] = score
            done += len(numbers)
            progress(done, len(encoded))
        return results

    def complete(
        self,
        prompts: Sequence[Prompt],
        max_new_tokens: int,
        progress: Progress = _silent,
        *,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[str]:
        """Continue each prompt by at most ``max_new_tokens``; a conversation gets its next turn.

        Temperature 0 takes the likeliest token each time; otherwise the answer depends on ``seed`` alone.
        """
        encoded = [self._encode_prompt(prompt, max_new_tokens) for prompt in prompts]
        answers: list[str] = []
        for start in range(0, len(encoded), self.batch_size):
            answers += self._generate(encoded[start : start + self.batch_size], max_new_tokens, temperature, seed)
            progress(len(answers), len(encoded))
        return answers

    def fill(self, text: str) -> str:
        """For a masked model: the text with each mask token replaced by the likeliest one."""
        import torch

        mask = self.tokenizer.mask_token_id
        ids = torch.tensor([self.tokenizer(text)["input_ids"]], device=self.model.device)
        if mask is None or not (ids == mask).any():
            instead = f"write {self.tokenizer.mask_token or 'a mask token'} where a word is wanted"
            raise InputError([Problem(text, what="has nothing to fill in", instead=instead)])
        with torch.no_grad():
            likeliest = self.model(input_ids=ids).logits.argmax(-1)
        return str(self.tokenizer.decode(torch.where(ids == mask, likeliest, ids)[0], skip_special_tokens=True))

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], int]:
        """Token ids of both together, and how many at the end are not the context's own (at least one)."""
        together: list[int] = self.tokenizer(context + continuation)["input_ids"]
        before: list[int] = self.tokenizer(context)["input_ids"]
        if self._ends_with_special(together):  # a tokenizer that closes every text
            together, before = together[:-1], before[:-1]
        shared = min(_common(before, together), len(together) - 1)
        if shared == 0:  # nothing stands before the continuation: condition on the beginning of a text
            together, shared = [self._beginning(), *together], 1
        target = len(together) - shared
        return together[-max(self.longest, target + 1) :], target

    def _encode_prompt(self, prompt: Prompt, new_tokens: int) -> list[int]:
        if isinstance(prompt, str):
            ids: list[int] = self.tokenizer(prompt)["input_ids"] or [self._beginning()]
            ids = ids[:-1] if len(ids) > 1 and self._ends_with_special(ids) else ids
        else:
            if not self.tokenizer.chat_template:
                what = "has no chat template, so a conversation cannot be put to it"
                raise InputError(
                    [Problem("tokenizer", what=what, instead="give prompts, or add chat_template.jinja")]
                )
            ids = list(
                self.tokenizer.apply_chat_template(list(prompt), add_generation_prompt=True, return_dict=False)
            )
        return ids[-max(1, self.longest - new_tokens) :]

    def _ends_with_special(self, ids: list[int]) -> bool:
        return bool(ids) and ids[-1] in {self.tokenizer.eos_token_id, self.tokenizer.sep_token_id} - {None}

    def _beginning(self) -> int:
        found = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, self.tokenizer.pad_token_id)
        return next((token for token in found if token is not None), 0)

    @property
    def longest(self) -> int:
        """Positions that the model has; practically endless where its config does not say."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or 1 << 30)

    @property
    def padding(self) -> int:
        """Token that fills up a batch; it is never attended to."""
        token = self.tokenizer.pad_token_id
        return int(token if token is not None else self._beginning())

    def _score(self, batch: list[tuple[list[int], int]]) -> list[float]:
        import torch

        ids, mask = self._padded([ids for ids, _ in batch], left=False)
        with torch.inference_mode():
            logits = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            scores = []
            for row, (tokens, target) in enumerate(batch):
                end = len(tokens)
                predictions = logits[row, end - target - 1 : end - 1].double().log_softmax(-1)
                scores.append(predictions.gather(-1, ids[row, end - target : end, None]).sum())
        return [float(score) for score in scores]

    def _generate(self, batch: list[list[int]], new_tokens: int, temperature: float, seed: int) -> list[str]:
        import torch
        from transformers import GenerationConfig

        ids, mask = self._padded(batch, left=True)
        own = self.model.generation_config
        ends = own.eos_token_id if own.eos_token_id is not None else self.tokenizer.eos_token_id
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        # Every setting is said: what is left out would be taken from the checkpoint, sampling and penalties included.
        config = GenerationConfig(
            max_new_tokens=new_tokens, pad_token_id=self.padding, eos_token_id=ends, bos_token_id=own.bos_token_id,
            num_beams=1, repetition_penalty=1.0, no_repeat_ngram_size=0,
            **(sampling if temperature else {"do_sample": False}),
        )  # fmt: skip
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        with torch.inference_mode(), torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            output = self.model.generate(input_ids=ids, attention_mask=mask, generation_config=config)
        return [
            str(text) for text in self.tokenizer.batch_decode(output[:, ids.shape[1] :], skip_special_tokens=True)
        ]

    def _padded(self, rows: list[list[int]], *, left: bool) -> tuple[Tensor, Tensor]:
        """Token ids and attention mask, both [rows, longest]."""
        import torch

        width = max(map(len, rows))
        ids = torch.full((len(rows), width), self.padding)
        mask = torch.zeros((len(rows), width), dtype=torch.int64)
        for number, row in enumerate(rows):
            place = slice(width - len(row), width) if left else slice(0, len(row))
            ids[number, place] = torch.tensor(row)
            mask[number, place] = 1
        return ids.to(self.model.device), mask.to(self.model.device)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the common beginning: a token that spans both texts belongs to the second."""
    pairs = zip(first, second, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _batches(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Cut into batches of at most so many padded tokens; ``order`` is longest first."""
    start = 0
    while start < len(order):
        size = max(1, _TOKENS_AT_A_TIME // max(1, lengths[order[start]]))
        yield list(order[start : start + size])
        start += size


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
