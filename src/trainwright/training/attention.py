"""Attention that stays inside documents, as one function that transformers' models call for their own.

Takes queries, keys and values from any model that uses transformers' attention interface, and a ``Documents`` value
that travels through the model's forward as a keyword argument. Other kernels and context parallelism plug in here;
no model is patched.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right
from torch.utils.checkpoint import checkpoint

from trainwright.errors import AnswerNo, MissingExtra

if TYPE_CHECKING:
    from trainwright.training.parallel.context import Context
    from trainwright.training.routing import Routing

Kernel = Literal["sdpa", "flash", "flex"]

#: Name under which transformers knows the function below. A name without a mask function of its own keeps
#: transformers from building masks (and from waiting for the device to look for packed sequences).
IMPLEMENTATION = "trainwright"
ARGUMENT = "documents"


@dataclass(eq=False)
class Documents:
    """Which positions of a micro-batch may see which.

    ``ids`` [B, T] numbers the documents of each row (-1 on padding) and is None when every row is one whole document.
    ``boundaries`` (int32, flattened over the batch) and ``longest`` are the ends of documents for ``flash``.
    """

    ids: Tensor | None
    causal: bool
    kernel: Kernel = "sdpa"
    recompute: bool = False
    boundaries: Tensor | None = None
    longest: int = 0
    routing: Routing | None = None
    """What sparse layers must know; it travels here because whoever calls a block hands this down."""
    context: Context | None = None
    """Ranks that hold the other positions of these rows; ``ids`` are of all positions all the same."""
    reached: bool = False
    _masks: dict[Any, Any] = field(default_factory=dict)

    def mask(self, length: int, window: int, device: torch.device) -> Tensor | None:
        """Boolean mask [B or 1, 1, T, T], true where a query may look; None when causality alone says it all."""
        window = window if 0 < window < length else 0
        if window not in self._masks:
            self._masks[window] = self._build(length, window, device)
        mask: Tensor | None = self._masks[window]
        return mask

    def rows(self, start: int, stop: int, keys: int, window: int, device: torch.device) -> Tensor | None:
        """Mask [B or 1, 1, stop − start, keys] of the queries from ``start`` on, looking at the first ``keys`` keys;
        None when they may look at all. Never more of the mask exists than this.
        """
        key = (start, stop, keys, window)
        if key not in self._masks:
            self._masks[key] = self._between(start, stop, keys, window, device)
        mask: Tensor | None = self._masks[key]
        return mask

    def _between(self, start: int, stop: int, keys: int, window: int, device: torch.device) -> Tensor | None:
        distance = torch.arange(start, stop, device=device)[:, None] - torch.arange(keys, device=device)[None, :]
        allowed = (distance >= 0)[None, None] if self.causal else None
        if window:
            near = (distance.abs() < window)[None, None]
            allowed = near if allowed is None else allowed & near
        if self.ids is not None:
            same = self.ids[:, None, start:stop, None] == self.ids[:, None, None, :keys]
            allowed = same if allowed is None else allowed & same
        return allowed

    def _build(self, length: int, window: int, device: torch.device) -> Tensor | None:
        place = torch.arange(length, device=device)
        distance = place[:, None] - place[None, :]
        allowed = None
        if self.ids is not None:
            # Padding (-1) sees padding: a row without any key would give NaN.
            allowed = (self.ids[:, None, :, None] == self.ids[:, None, None, :]) & (
                distance >= 0 if self.causal else torch.ones_like(distance, dtype=torch.bool)
            )
        if window:
            near = (distance < window) & (distance >= 0) if self.causal else distance.abs() < window
            allowed = near[None, None] if allowed is None else allowed & near
        return allowed

    def block_mask(
        self, queries: int, window: int, device: torch.device, start: int = 0, keys: int | None = None
    ) -> Any:
        """The same for flex attention, which skips blocks that nobody sees. Queries begin at ``start``; there are as
        many ``keys`` when nothing else is said.
        """
        key = ("blocks", start, queries, keys, window)
        if key not in self._masks:
            lengths = (queries, queries if keys is None else keys)
            self._masks[key] = _flex_mask(self.ids, self.causal, lengths, start, window, device)
        return self._masks[key]


def choose_kernel(asked: str, device_type: str, dtype: torch.dtype) -> Kernel:
    """The kernel to use. ``auto`` is torch's own; the others are refused with the reason where they cannot run."""
    if asked in ("auto", "sdpa"):
        return "sdpa"
    if device_type != "cuda":
        raise AnswerNo(f"attention: {asked} needs a CUDA device and this run is on {device_type}", "use sdpa or auto")
    if asked == "flash":
        if dtype not in (torch.bfloat16, torch.float16):
            raise AnswerNo(
                "attention: flash computes in bf16 or fp16 only", "set precision: bf16, or attention: sdpa"
            )
        if importlib.util.find_spec("flash_attn") is None:
            raise MissingExtra("attention: flash", "flash")
        return "flash"
    return "flex"


def register() -> None:
    """Make the function known to transformers; harmless when repeated."""
    from transformers import AttentionInterface

    AttentionInterface.register(IMPLEMENTATION, attend)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention within documents. Query [B, heads, T, d], key and value [B, KV heads, T, d] → [B, T, heads, d]."""
    documents = kwargs.get(ARGUMENT)
    if documents is None:
        raise AnswerNo(
            f"{type(module).__name__} does not hand keyword arguments down to attention",
            "train this model with your own script (train.script), or name another model",
        )
    foreign = [name for name in ("softcap", "s_aux", "position_bias") if kwargs.get(name) is not None]
    if foreign:
        raise AnswerNo(
            f"{type(module).__name__} changes attention scores by {', '.join(foreign)}, which no kernel computes",
            "train this model with your own script (train.script)",
        )
    documents.reached = True
    window = int(kwargs.get("sliding_window") or 0)
    core = _CORES[documents.kernel] if documents.context is None else _over_context
    if documents.recompute and torch.is_grad_enabled():
        # Selective recomputation (Korthikanti et al. 2022, section 5): only the attention core runs again.
        return checkpoint(core, query, key, value, documents, window, dropout, scaling, use_reentrant=False), None
    return core(query, key, value, documents, window, dropout, scaling), None


def _sdpa(
    query: Tensor, key: Tensor, value: Tensor, documents: Documents, window: int, dropout: float, scale: float | None
) -> Tensor:
    mask = documents.mask(query.shape[2], window, query.device)
    grouped = key.shape[1] != query.shape[1]
    if grouped and (mask is not None or query.device.type == "cpu"):
        # Only the mask-free kernels on CUDA take grouped heads; elsewhere torch would fall back to its slowest path.
        repeats = query.shape[1] // key.shape[1]
        key, value, grouped = _repeat(key, repeats), _repeat(value, repeats), False
    out = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=mask is None and documents.causal,
        scale=scale,
        enable_gqa=grouped,
    )
    return out.transpose(1, 2)


def _over_context(
    query: Tensor, key: Tensor, value: Tensor, documents: Documents, window: int, dropout: float, scale: float | None
) -> Tensor:
    """Each of this rank's two chunks of queries against the keys of all ranks that it may see."""
    context = documents.context
    assert context is not None
    key, value = context.gather(key), context.gather(value)
    length, each = key.shape[2], query.shape[2] // 2
    found = []
    for number, part in zip(context.cut.chunks(), query.split(each, 2), strict=True):
        start = number * each
        seen = start + each if documents.causal else length
        core = _flex_chunk if documents.kernel == "flex" else _sdpa_chunk
        found.append(core(part, key[:, :, :seen], value[:, :, :seen], documents, start, window, dropout, scale))
    return torch.cat(found, 2).transpose(1, 2)


def _sdpa_chunk(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    documents: Documents,
    start: int,
    window: int,
    dropout: float,
    scale: float | None,
) -> Tensor:
    repeats, seen = query.shape[1] // key.shape[1], key.shape[2]
    key, value = _repeat(key, repeats), _repeat(value, repeats)
    if documents.ids is None and documents.causal and not 0 < window < seen and query.device.type == "cuda":
        # Fused kernels know this mask; written out it would take the memory that they save.
        mask: Any = causal_lower_right(query.shape[2], seen)
    else:
        mask = documents.rows(start, start + query.shape[2], seen, window, query.device)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale)


def _flex_chunk(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    documents: Documents,
    start: int,
    window: int,
    dropout: float,
    scale: float | None,
) -> Tensor:
    if dropout:
        raise AnswerNo("attention: flex computes no dropout on attention weights", "use attention: sdpa")
    mask = documents.block_mask(query.shape[2], window, query.device, start, key.shape[2])
    grouped = key.shape[1] != query.shape[1]
    out: Tensor = _compiled_flex()(query, key, value, block_mask=mask, scale=scale, enable_gqa=grouped)
    return out


def _repeat(heads: Tensor, times: int) -> Tensor:
    batch, count, length, width = heads.shape
    return heads[:, :, None].expand(batch, count, times, length, width).reshape(batch, count * times, length, width)


def _flash(
    query: Tensor, key: Tensor, value: Tensor, documents: Documents, window: int, dropout: float, scale: float | None
) -> Tensor:
    from flash_attn import flash_attn_varlen_func

    batch, heads, length, width = query.shape
    flat = [x.transpose(1, 2).reshape(batch * length, x.shape[1], width) for x in (query, key, value)]
    out = flash_attn_varlen_func(
        *flat,
        cu_seqlens_q=documents.boundaries,
        cu_seqlens_k=documents.boundaries,
        max_seqlen_q=documents.longest,
        max_seqlen_k=documents.longest,
        dropout_p=dropout,
        softmax_scale=scale,
        causal=documents.causal,
        window_size=(window - 1, 0 if documents.causal else window - 1) if window else (-1, -1),
    )
    result: Tensor = out.view(batch, length, heads, width)
    return result


def _flex(
    query: Tensor, key: Tensor, value: Tensor, documents: Documents, window: int, dropout: float, scale: float | None
) -> Tensor:
    if dropout:
        raise AnswerNo("attention: flex computes no dropout on attention weights", "use attention: sdpa")
    mask = documents.block_mask(query.shape[2], window, query.device)
    grouped = key.shape[1] != query.shape[1]
    out: Tensor = _compiled_flex()(query, key, value, block_mask=mask, scale=scale, enable_gqa=grouped)
    return out.transpose(1, 2)


_compiled: list[Any] = []


def _compiled_flex() -> Any:
    if not _compiled:
        from torch.nn.attention.flex_attention import flex_attention

        # Uncompiled it would write out all scores, which is what it is meant to avoid.
        _compiled.append(torch.compile(flex_attention, dynamic=False))
    return _compiled[0]


def _flex_mask(
    ids: Tensor | None, causal: bool, lengths: tuple[int, int], start: int, window: int, device: torch.device
) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        query = query + start
        allowed = query >= key if causal else query == query
        if ids is not None:
            allowed = allowed & (ids[batch, query] == ids[batch, key])
        if window:
            allowed = allowed & ((query - key).abs() < window)
        return allowed

    return create_block_mask(seen, None if ids is None else ids.shape[0], None, *lengths, device=str(device))


_CORES = {"sdpa": _sdpa, "flash": _flash, "flex": _flex}
