"""FLOPs of one token through a model: forward, backward and recomputation, attention counted causally or in full.

Takes a ``ModelShape`` and a sequence length and gives plain numbers. It must not know machines or precisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainwright.models.layout import Recompute
from trainwright.models.shape import ModelShape

#: ``full`` counts every query against every key, as PaLM (Chowdhery et al. 2022, appendix B) and Korthikanti et al.
#: 2022 (appendix A) do; ``causal`` counts only the keys a query may see, about half (Dao 2023, FlashAttention-2).
AttentionConvention = Literal["causal", "full"]


@dataclass(frozen=True)
class Flops:
    """FLOPs per token. ``model`` (forward + backward) is what MFU counts; ``hardware`` adds recomputation (HFU)."""

    forward: float
    backward: float
    recompute: float = 0.0

    @property
    def model(self) -> float:
        """Forward and backward: the numerator of model FLOPs utilization."""
        return self.forward + self.backward

    @property
    def hardware(self) -> float:
        """Everything the device does: the numerator of hardware FLOPs utilization."""
        return self.forward + self.backward + self.recompute


def mean_keys(sequence_length: int, window: int, causal: bool, chunked: bool = False) -> float:
    """Keys a query meets, averaged over a sequence of ``sequence_length`` queries.

    ``window`` 0 means no window. A causal query at position i meets min(i + 1, window) keys, or (``chunked``) those
    before it in its chunk; a non-causal one min(sequence_length, window).
    """
    reach = min(sequence_length, window) if window else sequence_length
    if not causal:
        return float(reach)
    if chunked:
        whole, rest = divmod(sequence_length, reach)
        return (whole * reach * (reach + 1) + rest * (rest + 1)) / 2 / sequence_length
    ramp = reach * (reach + 1) / 2
    return (ramp + (sequence_length - reach) * reach) / sequence_length


def attention_core(
    shape: ModelShape, block: int, sequence_length: int, convention: AttentionConvention = "causal"
) -> float:
    """Forward FLOPs per token of QKᵀ and of scores times V in one block, softmax not counted.

    In the decoder of an encoder-decoder it includes cross-attention over an encoder sequence of equal length.
    """
    per_key = 2 * shape.heads * (shape.key_dim + shape.value_dim)
    decoder = shape.causal and block >= shape.encoder_layers
    keys = mean_keys(sequence_length, shape.window(block), decoder and convention == "causal", shape.chunked)
    if shape.is_decoder_of_pair(block):
        keys += sequence_length
    return per_key * keys


def block_forward(
    shape: ModelShape, block: int, sequence_length: int, convention: AttentionConvention = "causal"
) -> float:
    """Forward FLOPs per token of one block: its matrices and its attention core."""
    matrices = sum(linear.flops_per_token for linear in shape.block_linears(block))
    return matrices + attention_core(shape, block, sequence_length, convention)


def flops_per_token(
    shape: ModelShape,
    sequence_length: int,
    attention: AttentionConvention = "causal",
    recompute: Recompute = "none",
) -> Flops:
    """FLOPs per token of one training step: backward is twice forward (gradients of inputs and of weights).

    ``recompute``: ``selective`` runs the attention core once more, ``full`` the forward of every block
    (Korthikanti et al. 2022, section 5); the head is never recomputed. Embedding look-ups, norms, softmax and
    activation functions are not counted. For an encoder-decoder a "token" is one encoder token together with one
    decoder token, both sequences being ``sequence_length`` long.
    """
    blocks = sum(block_forward(shape, block, sequence_length, attention) for block in range(shape.blocks))
    forward = blocks + sum(linear.flops_per_token for linear in shape.head_linears)
    again = 0.0
    if recompute == "full":
        again = blocks
    elif recompute == "selective":
        again = sum(attention_core(shape, block, sequence_length, attention) for block in range(shape.blocks))
    return Flops(forward=forward, backward=2 * forward, recompute=again)
