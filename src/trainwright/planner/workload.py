"""What the planner is asked about: a workload, a machine and a software stack, as flat frozen values.

Takes nothing but numbers and names, so that the formulas can be run from the CLI, a spec, a test or a table of
published measurements alike. Knows neither files nor facts; ``planner.inputs`` builds these from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Precision = Literal["bf16", "fp16", "fp32", "fp8"]
Optimizer = Literal["adamw", "adamw8bit", "adafactor", "lion", "sgd"]
Method = Literal["full", "lora", "qlora"]
Offload = Literal["none", "cpu", "nvme"]
Fabric = Literal["nvswitch", "nvlink_pairs", "pcie", "neuronlink", "none"]

#: Bytes of one activation or compute-weight element.
ELEMENT_BYTES: dict[str, int] = {"bf16": 2, "fp16": 2, "fp8": 2, "fp32": 4}

#: Dimensions that an engine does not cut. The built-in trainer cuts all of them; DeepSpeed's ZeRO has only
#: data parallelism. A user's own script may do as it likes.
ENGINE_LIMITS: dict[str, tuple[str, ...]] = {
    "native": (),
    "deepspeed": ("pp", "cp", "tp", "ep"),
}

#: What the built-in trainer offloads with: torch offloads what FSDP has sharded (training/parallel).
NATIVE_OFFLOAD: dict[str, int] = {"zero": 3, "pp": 1, "tp": 1, "ep": 1, "dp_replicate": 1}


@dataclass(frozen=True)
class Dims:
    """The sizes of one transformer that the formulas read; parameter counts are elements, exact.

    ``attention_params``, ``mlp_params`` and ``norm_params`` are per layer (the mean where layers differ);
    ``expert_params`` counts all experts of one MoE layer, ``mlp_params`` the dense (or shared-expert) part that
    every token crosses. ``embedding_params`` holds token and position tables, ``head_params`` an untied head.
    ``window`` caps the attention span (0: none). ``layers`` counts encoder and decoder layers together.
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: bool
    vocab: int
    tied: bool
    max_positions: int
    attention_params: int
    mlp_params: int
    norm_params: int
    embedding_params: int
    head_params: int
    final_params: int = 0
    causal: bool = True
    has_head: bool = True
    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    expert_params: int = 0
    moe_layers: int = 0
    window: int = 0
    window_layers: int = 0
    dropout: bool = False
    name: str = "model"

    @property
    def q_size(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key heads together (values are as wide)."""
        return self.kv_heads * self.head_dim

    @property
    def dense_layer_params(self) -> int:
        """Parameters of one layer that every data rank of an expert group holds."""
        return self.attention_params + self.mlp_params + self.norm_params

    @property
    def params(self) -> int:
        """All parameters."""
        return (
            self.layers * self.dense_layer_params
            + self.moe_layers * self.expert_params
            + self.embedding_params
            + self.head_params
            + self.final_params
        )

    @property
    def active_params(self) -> int:
        """Parameters that one token crosses, embedding tables included."""
        idle = 0
        if self.experts:
            idle = self.moe_layers * self.expert_params * (self.experts - self.top_k) // self.experts
        return self.params - idle

    def attention_span(self, sequence_length: int) -> float:
        """Mean number of keys that a query may see before the causal mask halves them, over all layers.

        A causal window of w keys holds w − w²/2s of them on average (the first queries have fewer): twice that here.
        """
        if not self.window or self.window >= sequence_length or not self.layers:
            return float(sequence_length)
        inside = min(self.window_layers, self.layers)
        seen = self.window * (2 - self.window / sequence_length) if self.causal else self.window
        return (inside * seen + (self.layers - inside) * sequence_length) / self.layers


def gpt(
    hidden: int,
    layers: int,
    heads: int,
    vocab: int,
    *,
    kv_heads: int = 0,
    ffn: int = 0,
    gated: bool = False,
    tied: bool = True,
    positions: int = 0,
    bias: bool = True,
    head_dim: int = 0,
    dropout: bool = False,
    causal: bool = True,
    experts: int = 0,
    top_k: int = 0,
    max_positions: int = 0,
    name: str = "model",
) -> Dims:
    """Dims of a plain decoder (or encoder) from its handful of sizes.

    ``positions`` counts learned position embeddings (0: rotary or ALiBi). With ``experts`` every layer is MoE and
    ``ffn`` is one expert's. ``bias`` adds the biases of linear layers and norms (GPT-2 style).
    """
    head_dim = head_dim or hidden // heads
    kv_heads = kv_heads or heads
    ffn = ffn or 4 * hidden
    q, kv = heads * head_dim, kv_heads * head_dim
    attention = hidden * (q + 2 * kv) + q * hidden + ((q + 2 * kv + hidden) if bias else 0)
    one_mlp = (3 if gated else 2) * hidden * ffn + ((ffn * (2 if gated else 1) + hidden) if bias else 0)
    norm = 2 * hidden * (2 if bias else 1)
    return Dims(
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=0 if experts else ffn,
        gated=gated,
        vocab=vocab,
        tied=tied,
        max_positions=max_positions or positions or 1 << 30,
        attention_params=attention,
        mlp_params=hidden * experts if experts else one_mlp,
        norm_params=norm,
        embedding_params=vocab * hidden + positions * hidden,
        head_params=0 if tied else vocab * hidden,
        final_params=hidden * (2 if bias else 1),
        causal=causal,
        experts=experts,
        top_k=top_k,
        expert_ffn=ffn if experts else 0,
        expert_params=experts * one_mlp if experts else 0,
        moe_layers=layers if experts else 0,
        dropout=dropout,
        name=name,
    )


@dataclass(frozen=True)
class Recipe:
    """Bytes per parameter that a training stack keeps: (weights, gradients, master weights).

    ``gathered`` is what a parameter takes once gathered for compute, ``reduced`` what a gradient takes while it is
    being reduced. Optimizer state comes from ``OPTIMIZER_BYTES``. ``fsdp``: weights stay sharded under every
    ZeRO stage above 0 and are gathered into a copy (FSDP2), where DeepSpeed and Megatron keep them whole below 3.
    ``spare_gradients``: 16-bit gradients are kept beside the fp32 ones under stage 3 too.
    """

    weights: float
    gradients: float
    master: float
    gathered: float
    reduced: float
    fsdp: bool = False
    spare_gradients: bool = True


#: Optimizer state in bytes per trained parameter. Adafactor's factored moments are O(rows + columns): counted as
#: 0.02 B, and 8-bit AdamW as 1 B per moment plus one fp32 scale per block of 256 (Dettmers et al. 2021).
OPTIMIZER_BYTES: dict[str, float] = {
    "adamw": 8.0,
    "adamw8bit": 2.0 + 2 * 4 / 256,
    "adafactor": 0.02,
    "lion": 4.0,
    "sgd": 4.0,
}

#: How each stack stores a parameter in 16-bit training, and in fp32.
#: zero: the ZeRO paper's 2 + 2 + 12; deepspeed: its code's fp32 gradient accumulation (stage_1_and_2.py);
#: megatron: fp32 main gradients; nemo: bf16 gradients; native and fsdp: fp32 shards gathered as bf16.
RECIPES: dict[str, Recipe] = {
    "zero": Recipe(2, 2, 4, 2, 2),
    "deepspeed": Recipe(2, 2, 8, 2, 2, spare_gradients=False),
    "megatron": Recipe(2, 4, 4, 2, 4),
    "megatron_fp16": Recipe(2, 2, 4, 2, 2),
    "nemo": Recipe(2, 2, 4, 2, 2),
    "nanotron": Recipe(2, 4, 4, 2, 4),
    "native": Recipe(4, 4, 0, 2, 4, fsdp=True),
    "fsdp": Recipe(4, 4, 0, 2, 2, fsdp=True),
}


@dataclass(frozen=True)
class Workload:
    """What is trained, apart from how it is cut over ranks.

    ``global_batch_size`` is in sequences; ``tokens`` is the whole run's, None when unknown; ``recipe`` names an
    entry of ``RECIPES``; ``stack`` an entry of the constants file (kernels, fusion, overlap).
    """

    dims: Dims
    sequence_length: int
    global_batch_size: int
    precision: Precision = "bf16"
    optimizer: Optimizer = "adamw"
    method: Method = "full"
    lora_rank: int = 16
    lora_params: int = 0
    offload_optimizer: Offload = "none"
    offload_parameters: Offload = "none"
    recipe: str = "native"
    stack: str = "native"
    tokens: float | None = None
    steps: int | None = None
    checkpoint_seconds: float | None = None

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimizer step."""
        return self.sequence_length * self.global_batch_size

    @property
    def state(self) -> Recipe:
        """Bytes per parameter of this precision under this stack."""
        recipe = RECIPES[self.recipe]
        return Recipe(4, 4, 0, 4, 4, recipe.fsdp) if self.precision == "fp32" else recipe

    @property
    def trained_params(self) -> int:
        """Parameters that receive gradients."""
        return self.dims.params if self.method == "full" else self.lora_params


@dataclass(frozen=True)
class Machine:
    """A homogeneous cluster. Bandwidths are bytes/s in one direction, memory bytes, times seconds.

    ``intra_bandwidth`` is per accelerator; ``inter_bandwidth`` per node, over all its interfaces. ``peak`` maps a
    precision to dense FLOP/s of one accelerator. ``price`` is per node and hour.
    """

    name: str
    accelerator: str
    nodes: int
    per_node: int
    memory_bytes: int
    peak: tuple[tuple[str, float], ...]
    memory_bandwidth: float
    intra_bandwidth: float
    inter_bandwidth: float
    fabric: Fabric = "nvswitch"
    pcie_bandwidth: float = 25e9
    host_memory_bytes: int = 0
    nvme_bytes: int = 0
    price: float | None = None
    price_date: str = ""
    facts_date: str = ""

    @property
    def world_size(self) -> int:
        """Number of accelerators."""
        return self.nodes * self.per_node

    def flops(self, precision: str) -> float:
        """Dense peak FLOP/s for matrix multiplications in ``precision``; falls back to the next wider one."""
        table = dict(self.peak)
        for name in (precision, "bf16" if precision in ("fp8", "fp16") else precision, "fp16", "fp32"):
            if table.get(name):
                return table[name]
        raise ValueError(f"{self.name} states no peak FLOP/s for {precision}")
