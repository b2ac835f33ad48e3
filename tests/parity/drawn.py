"""Random cases that are legal: any of them that is refused, or computes something else, is a bug."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from parity.cases import Case
from trainwright.models.layout import MESH_DIMENSIONS

#: Model of ``Case.model`` → may be cut over context ranks.
MODELS = {"llama": True, "qwen3": True, "gpt2": True, "mistral": True, "mixtral": False, "qwen3_moe": False}
SPARSE = frozenset({"mixtral", "qwen3_moe"})
#: Heads and key-value heads of Llama; both ranks of tp must get some.
HEADS = [(6, 2), (4, 2), (4, 4), (6, 6)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A model, a layout of two or four ranks for it, and how a step is cut into micro-batches."""
    model = draw(st.sampled_from(list(MODELS)))
    layout = _degrees(draw, model)
    layers = draw(st.integers(2, 4))
    if layout.get("tp", 1) > 1:
        layout["sequence_parallel"] = draw(st.booleans())
    over = layout.get("dp_shard", 1) * layout.get("cp", 1)
    if over > 1:
        layout["zero"] = draw(st.integers(0, 3))
    if model in SPARSE and layout.get("dp_shard", 1) > 1 and layout.get("tp", 1) == 1:
        layout["ep"] = draw(st.sampled_from([n for n in (1, 2, 4) if layout["dp_shard"] % n == 0]))
    layout["micro_batch_size"] = draw(st.integers(1, 3))
    recompute = draw(st.sampled_from(["none", "selective", "full"]))
    data = layout.get("dp_replicate", 1) * layout.get("dp_shard", 1)
    rounds = draw(st.integers(1, 3))
    if layout.get("pp", 1) > 1:
        _schedule(draw, layout, layers, recompute)
        if layout["schedule"] in ("interleaved", "zero_bubble"):
            rounds = layout["pp"]  # they need a multiple of it
        layers = max(layers, layout["pp"] * (2 if layout["schedule"] == "interleaved" else 1))
    batch = rounds * data * layout["micro_batch_size"]
    # A last step that is short: fewer micro-batches, ranks without a sample, rows without any target.
    samples = batch + draw(st.integers(0, batch - 1))
    fields: dict[str, Any] = {"vocab_size": draw(st.integers(120, 124))}
    if model == "llama":
        heads, fields["num_key_value_heads"] = draw(st.sampled_from(HEADS))
        fields["num_attention_heads"] = heads
        fields["intermediate_size"] = draw(st.sampled_from([34, 40]))
    return Case(
        layout, model=model, tied=draw(st.booleans()), layers=layers, lora=draw(st.booleans()), samples=samples,
        batch=batch, clip=draw(st.sampled_from([None, 0.05])), recompute=recompute, fields=fields,
    )  # fmt: skip


def _degrees(draw: st.DrawFn, model: str) -> dict[str, Any]:
    """Two dimensions of two ranks each, the same one twice, or one."""
    names = [name for name in MESH_DIMENSIONS if name != "cp" or MODELS[model]]
    layout: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)):
        layout[name] = 2 * layout.get(name, 1)
    if layout.get("tp", 1) > 2:  # no model here has four key-value heads
        layout["tp"] = 2
    return layout


def _schedule(draw: st.DrawFn, layout: dict[str, Any], layers: int, recompute: str) -> None:
    alone = layout.get("zero", 0) == 0 and recompute == "none" and layout.get("tp", 1) == layout.get("ep", 1) == 1
    kinds = ["1f1b", "gpipe", "interleaved", *(["zero_bubble"] if alone else [])]
    layout["schedule"] = draw(st.sampled_from(kinds))
    if layout["pp"] == 2 and layout["schedule"] in ("1f1b", "gpipe") and draw(st.booleans()):
        first = draw(st.integers(1, layers - 1))
        layout["stages"] = [first, layers - first]
