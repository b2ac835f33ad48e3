"""ModelShape: everything about a transformer that memory and time formulas need, and its exact parameter count.

Takes plain numbers (from a Hugging Face config, a table or the command line) and gives every matrix of the model
with its size, kind and tensor-parallel cut; parameters and FLOPs are sums over that one listing.
Standard library only; it knows nothing of machines, layouts, bytes or modules of any framework.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

Norm = Literal["rms", "layer", "layer_no_bias"]
Positions = Literal["rope", "learned", "alibi", "relative", "none"]
QkNorm = Literal["none", "head", "full"]
Kind = Literal["embedding", "attention", "mlp", "experts", "router", "norms", "head", "other"]
Split = Literal["column", "row", "replicated", "vocab"]

KINDS: tuple[Kind, ...] = ("embedding", "attention", "mlp", "experts", "router", "norms", "head", "other")


@dataclass(frozen=True)
class Linear:
    """One matrix multiplication of a block or of the head, by its canonical name (``q``, ``up``, ``router`` …).

    ``split`` is how tensor parallelism cuts it: column (outputs), row (inputs), replicated, vocab (outputs over
    the vocabulary). ``count`` copies exist (experts) and ``uses`` of them are applied to each token.
    """

    name: str
    kind: Kind
    inputs: int
    outputs: int
    bias: bool = False
    split: Split = "replicated"
    count: int = 1
    uses: int = 1

    @property
    def parameters(self) -> int:
        """Weights and bias of all copies."""
        return self.count * (self.inputs * self.outputs + (self.outputs if self.bias else 0))

    @property
    def active_parameters(self) -> int:
        """Weights and bias of the copies one token goes through."""
        return self.uses * (self.inputs * self.outputs + (self.outputs if self.bias else 0))

    @property
    def flops_per_token(self) -> int:
        """Forward FLOPs for one token: two per weight (multiply and add), biases not counted."""
        return 2 * self.uses * self.inputs * self.outputs


@dataclass(frozen=True)
class ParameterCount:
    """Numbers of parameters by kind; a tied head counts once, in ``embedding``."""

    embedding: int = 0
    attention: int = 0
    mlp: int = 0
    experts: int = 0
    router: int = 0
    norms: int = 0
    head: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """All kinds together."""
        return (
            self.embedding
            + self.attention
            + self.mlp
            + self.experts
            + self.router
            + self.norms
            + self.head
            + self.other
        )

    def __add__(self, more: ParameterCount) -> ParameterCount:
        return ParameterCount(*(getattr(self, kind) + getattr(more, kind) for kind in KINDS))

    def to_dict(self) -> dict[str, int]:
        """Plain JSON-ready values, with ``total``."""
        return {**asdict(self), "total": self.total}


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2): ranks of the compressed query and key-value, and head widths.

    ``q_rank`` 0 means that the query is not compressed. Query and key heads are ``nope_dim + rope_dim`` wide.
    """

    q_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True)
class MixtureOfExperts:
    """Experts of the sparse layers. ``shared_intermediate`` is the total width of the experts every token uses.

    ``layers`` holds the 0-based indexes of the sparse layers (decoder layers in an encoder-decoder).
    ``shared_gate``: a hidden → 1 gate on the shared experts (Qwen2-MoE). ``router_bias``: the router has a bias.
    """

    experts: int
    top_k: int
    intermediate: int
    layers: tuple[int, ...]
    shared_intermediate: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False


@dataclass(frozen=True)
class ModelShape:
    """The shape of one transformer. Sizes are in elements, positions in tokens.

    A decoder (``causal``), an encoder (``causal=False``) or, where ``encoder_layers`` > 0, an encoder-decoder
    whose ``layers`` are the decoder's (with cross-attention) and whose blocks are numbered encoder first.
    """

    name: str
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool = False
    #: Three MLP matrices (gate, up, down) instead of two.
    gated: bool = True
    activation: str = "silu"
    norm: Norm = "rms"
    #: Norms over the hidden width in each block (two in most, four in Gemma 2, one in GPT-J).
    norms_per_layer: int = 2
    final_norm: bool = True
    embedding_norm: bool = False
    #: "head": over one head's width (Qwen 3); "full": over the whole projection (OLMo 2).
    qk_norm: QkNorm = "none"
    #: Canonical names of the linears that carry a bias: q k v o gate up down head, and cross_… in an encoder-decoder.
    biases: frozenset[str] = frozenset()
    positions: Positions = "rope"
    #: Longest sequence the positions are defined for; 0 when there is no limit (ALiBi, relative).
    max_positions: int = 0
    #: Rows of the learned position table (RoBERTa keeps two more than it can use).
    position_rows: int = 0
    token_types: int = 0
    #: Attention window of each layer in tokens, 0 = full; empty = all full.
    windows: tuple[int, ...] = ()
    #: Windows are fixed chunks (Llama 4) instead of sliding with the query.
    chunked: bool = False
    causal: bool = True
    #: Attention and MLP read the same input and are added together (GPT-J, GPT-NeoX, Falcon).
    parallel_block: bool = False
    dropout: float = 0.0
    latent: LatentAttention | None = None
    moe: MixtureOfExperts | None = None
    encoder_layers: int = 0
    #: Buckets of the relative attention bias, held once per stack (T5).
    relative_buckets: int = 0
    #: A dense layer and a norm before the head (BERT's masked-language-model head).
    head_transform: bool = False
    #: Parameters outside the transformer that the fields above do not describe.
    other: int = 0
    notes: tuple[str, ...] = ()

    @property
    def blocks(self) -> int:
        """Repeated transformer blocks, encoder's and decoder's together: what a pipeline cuts."""
        return self.encoder_layers + self.layers

    @property
    def is_moe(self) -> bool:
        """Whether any layer is sparse."""
        return self.moe is not None and bool(self.moe.layers)

    @property
    def key_dim(self) -> int:
        """Width of one query/key head."""
        return self.latent.nope_dim + self.latent.rope_dim if self.latent else self.head_dim

    @property
    def value_dim(self) -> int:
        """Width of one value head."""
        return self.latent.value_dim if self.latent else self.head_dim

    @property
    def query_width(self) -> int:
        """All query heads side by side."""
        return self.heads * self.key_dim

    @property
    def kv_width(self) -> int:
        """All key heads side by side (equal to all value heads except under latent attention)."""
        return self.kv_heads * self.key_dim

    def window(self, block: int) -> int:
        """Attention window of a block in tokens; 0 = full."""
        layer = block - self.encoder_layers
        return self.windows[layer] if self.windows and layer >= 0 else 0

    def is_sparse(self, block: int) -> bool:
        """Whether a block's MLP is a mixture of experts."""
        return self.moe is not None and (block - self.encoder_layers) in self._sparse_layers

    def is_decoder_of_pair(self, block: int) -> bool:
        """Whether a block also holds cross-attention (decoder of an encoder-decoder)."""
        return self.encoder_layers > 0 and block >= self.encoder_layers

    def block_linears(self, block: int = 0) -> tuple[Linear, ...]:
        """Every matrix multiplication with weights in one block, in order of use."""
        return self._linears_by_kind[self.is_decoder_of_pair(block), self.is_sparse(block)]

    @cached_property
    def head_linears(self) -> tuple[Linear, ...]:
        """The head's matrices; a tied output matrix is listed here for its FLOPs, its weights count once."""
        head = Linear("head", "head", self.hidden, self.vocab, "head" in self.biases, "vocab")
        if not self.head_transform:
            return (head,)
        return Linear("head_transform", "head", self.hidden, self.hidden, True), head

    def block_parameters(self, block: int = 0) -> ParameterCount:
        """Exact parameters of one block by kind. T5's relative bias sits in the first block of each stack."""
        count = self._block_counts[self.is_decoder_of_pair(block), self.is_sparse(block)]
        if self.relative_buckets and block in (0, self.encoder_layers):
            count = count + ParameterCount(attention=self.relative_buckets * self.heads)
        return count

    @cached_property
    def embedding_parameters(self) -> ParameterCount:
        """Token, position and token-type tables, and the norm after them."""
        rows = self.vocab + self.position_rows + self.token_types
        norms = self.norm_size(self.hidden) if self.embedding_norm else 0
        return ParameterCount(embedding=rows * self.hidden, norms=norms)

    @cached_property
    def head_parameters(self) -> ParameterCount:
        """Final norm(s) and output head; of a tied head only its bias and transform."""
        matrices = sum(linear.parameters for linear in self.head_linears)
        if self.tied:
            matrices -= self.hidden * self.vocab
        norms = int(self.head_transform) + int(self.final_norm) * (2 if self.encoder_layers else 1)
        return ParameterCount(head=matrices, norms=norms * self.norm_size(self.hidden))

    @cached_property
    def parameters(self) -> ParameterCount:
        """Exact parameters of the whole model by kind, as the causal or masked language model that is trained."""
        count = self.embedding_parameters + self.head_parameters + ParameterCount(other=self.other)
        for block in range(self.blocks):
            count = count + self.block_parameters(block)
        return count

    @cached_property
    def active_parameters(self) -> int:
        """Parameters one token goes through: all of them but the experts it is not routed to."""
        idle = 0
        for block in range(self.blocks):
            idle += sum(linear.parameters - linear.active_parameters for linear in self.block_linears(block))
        return self.parameters.total - idle

    @property
    def expert_parameters(self) -> int:
        """Parameters of one routed expert of one layer; 0 in a dense model."""
        if self.moe is None:
            return 0
        matrices = 3 if self.gated else 2
        bias = (matrices - 1) * self.moe.intermediate + self.hidden if self.moe.expert_bias else 0
        return matrices * self.hidden * self.moe.intermediate + bias

    def norm_size(self, width: int) -> int:
        """Parameters of one norm over ``width`` elements."""
        return 2 * width if self.norm == "layer" else width

    @cached_property
    def _sparse_layers(self) -> frozenset[int]:
        return frozenset(self.moe.layers) if self.moe else frozenset()

    @cached_property
    def _linears_by_kind(self) -> dict[tuple[bool, bool], tuple[Linear, ...]]:
        return {
            (cross, sparse): (*self._attention(cross), *(self._experts() if sparse else self._mlp()))
            for cross in (False, True)
            for sparse in ((False, True) if self.moe else (False,))
        }

    @cached_property
    def _block_counts(self) -> dict[tuple[bool, bool], ParameterCount]:
        return {kinds: self._count_block(*kinds) for kinds in self._linears_by_kind}

    def _count_block(self, cross: bool, sparse: bool) -> ParameterCount:
        counts: dict[str, int] = dict.fromkeys(KINDS, 0)
        for linear in self._linears_by_kind[cross, sparse]:
            counts[linear.kind] += linear.parameters
        norms = self.norms_per_layer + (1 if cross else 0)
        counts["norms"] = norms * self.norm_size(self.hidden) + self._inner_norms()
        return ParameterCount(**counts)

    def _inner_norms(self) -> int:
        """Norms inside attention: over queries and keys, or over latent attention's compressed vectors."""
        if self.latent:
            return self.norm_size(self.latent.q_rank) + self.norm_size(self.latent.kv_rank)
        if self.qk_norm == "head":
            return 2 * self.norm_size(self.head_dim)
        if self.qk_norm == "full":
            return self.norm_size(self.query_width) + self.norm_size(self.kv_width)
        return 0

    def _linear(self, name: str, kind: Kind, inputs: int, outputs: int, split: Split) -> Linear:
        return Linear(name, kind, inputs, outputs, name in self.biases, split)

    def _attention(self, cross: bool) -> tuple[Linear, ...]:
        if self.latent:
            return self._latent_attention(self.latent)
        prefixes = ("", "cross_") if cross else ("",)
        return tuple(
            linear
            for prefix in prefixes
            for linear in (
                self._linear(f"{prefix}q", "attention", self.hidden, self.query_width, "column"),
                self._linear(f"{prefix}k", "attention", self.hidden, self.kv_width, "column"),
                self._linear(f"{prefix}v", "attention", self.hidden, self.kv_width, "column"),
                self._linear(f"{prefix}o", "attention", self.query_width, self.hidden, "row"),
            )
        )

    def _latent_attention(self, latent: LatentAttention) -> tuple[Linear, ...]:
        query_down = (self._linear("q_down", "attention", self.hidden, latent.q_rank, "replicated"),)
        return (
            *(query_down if latent.q_rank else ()),
            self._linear("q", "attention", latent.q_rank or self.hidden, self.query_width, "column"),
            self._linear("kv_down", "attention", self.hidden, latent.kv_rank + latent.rope_dim, "replicated"),
            self._linear(
                "kv",
                "attention",
                latent.kv_rank,
                self.heads * (latent.nope_dim + latent.value_dim),
                "column",
            ),
            self._linear("o", "attention", self.heads * latent.value_dim, self.hidden, "row"),
        )

    def _mlp(self) -> tuple[Linear, ...]:
        gate = (self._linear("gate", "mlp", self.hidden, self.intermediate, "column"),)
        return (
            *(gate if self.gated else ()),
            self._linear("up", "mlp", self.hidden, self.intermediate, "column"),
            self._linear("down", "mlp", self.intermediate, self.hidden, "row"),
        )

    def _experts(self) -> tuple[Linear, ...]:
        moe = self.moe
        if moe is None:
            return ()
        width, shared = moe.intermediate, moe.shared_intermediate
        copies = {"count": moe.experts, "uses": moe.top_k}
        inward = ("gate", "up") if self.gated else ("up",)
        listed = [
            Linear("router", "router", self.hidden, moe.experts, moe.router_bias),
            *(Linear(name, "experts", self.hidden, width, moe.expert_bias, "column", **copies) for name in inward),
            Linear("down", "experts", width, self.hidden, moe.expert_bias, "row", **copies),
        ]
        if shared:
            listed += [Linear(f"shared_{name}", "mlp", self.hidden, shared, split="column") for name in inward]
            listed.append(Linear("shared_down", "mlp", shared, self.hidden, split="row"))
        if moe.shared_gate:
            listed.append(Linear("shared_router", "router", self.hidden, 1))
        return tuple(listed)

    def with_(self, **changes: Any) -> ModelShape:
        """A copy with some fields replaced (a padded vocabulary, fewer layers)."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values, every field present."""
        return {**asdict(self), "biases": sorted(self.biases)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelShape:
        """Read what ``to_dict`` wrote; unknown names raise ``TypeError`` (use ``from_text`` for people's input)."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise TypeError(f"no such field of ModelShape: {', '.join(unknown)}")
        values = dict(values)
        for name in ("windows", "notes"):
            values[name] = tuple(values.get(name, ()))
        values["biases"] = frozenset(values.get("biases", ()))
        if isinstance(values.get("latent"), dict):
            values["latent"] = LatentAttention(**values["latent"])
        if isinstance(values.get("moe"), dict):
            moe = values["moe"]
            values["moe"] = MixtureOfExperts(**{**moe, "layers": tuple(moe["layers"])})
        return cls(**values)

    @classmethod
    def from_text(cls, text: str) -> ModelShape:
        """A generic transformer from ``hidden=4096,layers=32,heads=32,…`` (see ``models.generic.parse``)."""
        from trainwright.models.generic import parse

        return parse(text)
