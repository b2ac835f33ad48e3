"""The module that training calls: from token ids to the weighted sum of the loss.

Wraps a transformers (or peft) model so that the head and the loss are inside the forward pass that DDP and FSDP see:
the head's weights are gathered when needed, and full logits need never exist. Knows neither ranks nor optimizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor, nn

from trainwright.errors import AnswerNo
from trainwright.training import attention
from trainwright.training.batches import DeviceBatch
from trainwright.training.loss import chunked_cross_entropy, logits_cross_entropy
from trainwright.training.routing import Routing

if TYPE_CHECKING:
    from trainwright.training.parallel.context import Context
    from trainwright.training.parallel.vocabulary import Vocabulary

#: Families whose logits are exactly the output head's matrix times the last hidden state: no scaling, no soft cap, no
#: transform. Others take the path over full logits, which is right for all.
PLAIN_HEADS = frozenset(
    {
        "llama", "mistral", "mixtral", "qwen2", "qwen3", "olmo2", "smollm3", "phi3", "gemma", "starcoder2",
        "gpt2", "gpt_neox",
    }
)  # fmt: skip


class Objective(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """``forward(batch, weight)`` gives (weight · sum, sum) of the loss over the batch's targets."""

    def __init__(self, network: nn.Module, kernel: attention.Kernel, recompute_attention: bool = False):
        super().__init__()
        self.network = network
        self.kernel = kernel
        self.recompute_attention = recompute_attention
        #: The transformers model itself: adapters are injected into it, so peft's wrapper need not be called.
        self._inner = [base() if callable(base := getattr(network, "get_base_model", None)) else network]
        #: True where sparse layers are told of each micro-batch (``routing.SparseLayer``).
        self.routed = False
        self._checked = False
        #: The vocabulary's cut over tensor ranks (``parallel.vocabulary``); logits are then of this rank's tokens.
        self.vocabulary: Vocabulary | None = None
        #: Ranks that hold the other positions of each row.
        self.context: Context | None = None
        #: True where a schedule computes gradients of inputs first and those of weights later (zero bubble).
        self.backward_in_parts = False

    @property
    def inner(self) -> Any:  # Any: transformers is not typed here
        """The transformers model."""
        return self._inner[0]

    def forward(self, batch: DeviceBatch, weight: float, row_weight: float = 0.0) -> tuple[Tensor, Tensor]:
        """(weighted loss, sum over targets). ``weight`` is that of one token; ``row_weight`` that of one row of a
        second objective with a label for each row (next sentence), which the sum leaves out.

        A batch without targets gives zero with a gradient of zeros.
        """
        return self.loss({"input_ids": batch.input_ids}, batch, weight, row_weight)

    def loss(
        self, inputs: dict[str, Any], batch: DeviceBatch, weight: float, row_weight: float
    ) -> tuple[Tensor, Tensor]:
        """The same from ``inputs``: token ids or, where a stage before has read those, their hidden states."""
        arguments = self._arguments(batch, weight)
        head = self._plain_head()
        if head is not None:
            backbone = self.inner.base_model
            hidden = backbone(**inputs, use_cache=False, **arguments).last_hidden_state
            self._check(arguments)
            rows = hidden.reshape(-1, hidden.shape[-1]).index_select(0, batch.targets)
            cross_entropy = self.vocabulary.chunked_cross_entropy if self.vocabulary else chunked_cross_entropy
            return cross_entropy(rows, head.weight, batch.labels, weight, self.backward_in_parts)
        if self.inner.config.is_encoder_decoder is False and batch.causal:
            arguments["use_cache"] = False
        output = self.inner(**inputs, **arguments)
        self._check(arguments)
        logits = output.prediction_logits if hasattr(output, "prediction_logits") else output.logits
        rows = logits.reshape(-1, logits.shape[-1]).index_select(0, batch.targets)
        of_logits = self.vocabulary.logits_cross_entropy if self.vocabulary else logits_cross_entropy
        loss, total = of_logits(rows, batch.labels, weight)
        if batch.next_sentence_labels is not None:
            scores = output.seq_relationship_logits.float()
            # Devlin et al. 2019 add the two means: over hidden tokens and over rows.
            loss = loss + F.cross_entropy(scores, batch.next_sentence_labels, reduction="sum") * row_weight
        return loss, total

    def hidden(self, inputs: dict[str, Any], batch: DeviceBatch, weight: float) -> Tensor:
        """The last hidden states [B, T, H], for the stage that goes on from them."""
        arguments = self._arguments(batch, weight)
        if batch.causal:
            arguments["use_cache"] = False
        hidden: Tensor = self.inner.base_model(**inputs, **arguments).last_hidden_state
        self._check(arguments)
        return hidden

    def _arguments(self, batch: DeviceBatch, weight: float) -> dict[str, Any]:
        documents = attention.Documents(
            batch.document_ids,
            causal=batch.causal,
            kernel=self.kernel,
            recompute=self.recompute_attention and self.training,
            boundaries=batch.boundaries,
            longest=batch.longest,
            context=self.context,
            routing=Routing.of(batch, weight, self.context) if self.routed else None,
        )
        arguments: dict[str, Any] = {attention.ARGUMENT: documents, "position_ids": batch.position_ids}
        if batch.token_type_ids is not None:
            arguments["token_type_ids"] = batch.token_type_ids
        return arguments

    def _plain_head(self) -> nn.Linear | None:
        if self.inner.config.model_type not in PLAIN_HEADS:
            return None
        head = self.inner.get_output_embeddings()
        plain = type(head) is nn.Linear or (self.vocabulary is not None and isinstance(head, nn.Linear))
        return head if plain and head.bias is None else None

    def _check(self, arguments: dict[str, Any]) -> None:
        """A model that never called our attention would let documents see each other, and nobody would notice."""
        if self._checked:
            return
        if not arguments[attention.ARGUMENT].reached:
            raise AnswerNo(
                f"models of type {self.inner.config.model_type} do not use transformers' attention interface, so "
                "attention cannot be kept inside documents",
                "train this model with your own script (train.script), or name another model",
            )
        self._checked = True
