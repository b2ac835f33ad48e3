"""Small configs with odd sizes, one or more per architecture, and the transformers class that trains each."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "intermediate_size": 83,
    "vocab_size": 101,
    "max_position_embeddings": 64,
}
NEOX = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
LATENT = {
    **SMALL,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
    "n_routed_experts": 5,
    "n_shared_experts": 2,
    "moe_intermediate_size": 23,
    "first_k_dense_replace": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
}
GPT = {"n_embd": 48, "n_layer": 3, "n_head": 6, "vocab_size": 101, "n_positions": 64}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 23}
T5 = {
    "d_model": 48,
    "d_kv": 7,
    "d_ff": 91,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 6,
    "vocab_size": 101,
}
BERT = {**NEOX, "type_vocab_size": 3}

#: name → (model_type, config). The name says what is odd about it.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", SMALL),
    "llama-tied-biased-wide-heads": (
        "llama",
        {**SMALL, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "head_dim": 10},
    ),
    "mistral": ("mistral", {**SMALL, "sliding_window": 16}),
    "mixtral": ("mixtral", {**SMALL, "num_local_experts": 5, "num_experts_per_tok": 2}),
    "qwen2": ("qwen2", SMALL),
    "qwen3": ("qwen3", {**SMALL, "head_dim": 12}),
    "qwen2-moe": ("qwen2_moe", {**SMALL, **EXPERTS, "shared_expert_intermediate_size": 37}),
    "qwen2-moe-every-second-layer": (
        "qwen2_moe",
        {**SMALL, **EXPERTS, "shared_expert_intermediate_size": 37, "decoder_sparse_step": 2},
    ),
    "qwen3-moe": ("qwen3_moe", {**SMALL, **EXPERTS, "head_dim": 10, "mlp_only_layers": [1]}),
    "gemma": ("gemma", {**SMALL, "head_dim": 14}),
    "gemma2": ("gemma2", {**SMALL, "head_dim": 14, "num_hidden_layers": 4}),
    "gemma3": ("gemma3_text", {**SMALL, "head_dim": 14, "num_hidden_layers": 7}),
    "llama4": (
        "llama4_text",
        {
            **SMALL,
            "head_dim": 10,
            "num_local_experts": 5,
            "intermediate_size_mlp": 71,
            "interleave_moe_layer_step": 2,
        },
    ),
    "deepseek-v2-lite": ("deepseek_v2", {**LATENT, "q_lora_rank": None}),
    "deepseek-v2": ("deepseek_v2", {**LATENT, "q_lora_rank": 20}),
    "deepseek-v3-biased": ("deepseek_v3", {**LATENT, "q_lora_rank": 20, "attention_bias": True}),
    "phi": ("phi", SMALL),
    "phi3": ("phi3", SMALL),
    "olmo2": ("olmo2", SMALL),
    "smollm3": ("smollm3", {**SMALL, "num_hidden_layers": 4}),
    "nemotron": ("nemotron", SMALL),
    "gpt2": ("gpt2", {**GPT, "n_inner": 91}),
    "gpt-neox": ("gpt_neox", NEOX),
    "gpt-neox-without-attention-bias": ("gpt_neox", {**NEOX, "attention_bias": False}),
    "gptj": ("gptj", {**GPT, "rotary_dim": 4}),
    "falcon-one-kv-head": ("falcon", {**NEOX, "intermediate_size": None}),
    "falcon-grouped": (
        "falcon",
        {**NEOX, "intermediate_size": None, "new_decoder_architecture": True, "num_kv_heads": 3},
    ),
    "falcon-rw": (
        "falcon",
        {
            **NEOX,
            "intermediate_size": None,
            "multi_query": False,
            "parallel_attn": False,
            "alibi": True,
            "bias": True,
        },
    ),
    "bloom": ("bloom", {"hidden_size": 48, "n_layer": 3, "n_head": 6, "vocab_size": 101}),
    "mpt": ("mpt", {"d_model": 48, "n_layers": 3, "n_heads": 6, "vocab_size": 101, "max_seq_len": 64}),
    "opt": ("opt", {**NEOX, "ffn_dim": 91, "word_embed_proj_dim": 48}),
    "t5": ("t5", T5),
    "t5-gated-untied": ("t5", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": ("mt5", T5),
    "bert": ("bert", BERT),
    "roberta": ("roberta", {**BERT, "type_vocab_size": 1}),
    "xlm-roberta": ("xlm-roberta", {**BERT, "type_vocab_size": 1}),
    "distilbert": (
        "distilbert",
        {"dim": 48, "n_layers": 3, "n_heads": 6, "hidden_dim": 91, "vocab_size": 101, "max_position_embeddings": 64},
    ),
}

#: One full-size model of every family, from the built-in table (which has no size of mT5's).
FULL_SIZE = (
    "llama-3.1-405b",
    "llama-4-maverick",
    "mistral-nemo-12b",
    "mixtral-8x22b",
    "qwen2.5-72b",
    "qwen3-32b",
    "qwen2-57b-a14b",
    "qwen3-235b-a22b",
    "gemma-7b",
    "gemma-2-27b",
    "gemma-3-27b",
    "phi-2",
    "phi-4",
    "olmo-2-32b",
    "smollm3-3b",
    "smollm2-135m",
    "nemotron-4-340b",
    "gpt3-175b",
    "gpt-neox-20b",
    "gpt-j-6b",
    "falcon-7b",
    "falcon-180b",
    "bloom-176b",
    "mpt-30b",
    "opt-66b",
    "deepseek-v2-lite",
    "deepseek-v3",
    "t5-11b",
    "flan-t5-xxl",
    "bert-large-uncased",
    "roberta-large",
    "xlm-roberta-base",
    "distilbert-base-uncased",
)
