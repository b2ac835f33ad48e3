"""Readers of published training measurements: each row of a known CSV shape becomes one ``Case`` to predict.

A case holds what was run (workload, machine, layout) and what was measured (seconds, bytes). What the planner cannot
describe (vision encoders, reinforcement learning, state-space layers) is refused with its reason, never guessed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainwright.errors import InputError
from trainwright.facts import instances
from trainwright.models import registry
from trainwright.models.layout import Layout, LayoutError
from trainwright.models.stages import balanced_stages
from trainwright.planner.inputs import dims_of, machine_of
from trainwright.planner.remedies import lora_params
from trainwright.planner.workload import Dims, Machine, Workload, gpt

GIB = 2**30
#: No size of a model or batch is larger, and no model has more layers.
LARGEST = 1 << 26
MOST_LAYERS = 10_000

#: Shapes by name, as their public configurations state them (facts; ``trainwright.models`` holds the full table).
SHAPES: dict[str, Dims] = {
    "llama 8b": gpt(4096, 32, 32, 128256, kv_heads=8, ffn=14336, gated=True, tied=False, bias=False),
    "llama 70b": gpt(8192, 80, 64, 128256, kv_heads=8, ffn=28672, gated=True, tied=False, bias=False),
    "llama 405b": gpt(16384, 126, 128, 128256, kv_heads=8, ffn=53248, gated=True, tied=False, bias=False),
    "llama2 7b": gpt(4096, 32, 32, 32000, ffn=11008, gated=True, tied=False, bias=False),
    "llama2 13b": gpt(5120, 40, 40, 32000, ffn=13824, gated=True, tied=False, bias=False),
    "llama2 70b": gpt(8192, 80, 64, 32000, kv_heads=8, ffn=28672, gated=True, tied=False, bias=False),
    "nemotron 15b": gpt(6144, 32, 48, 256000, kv_heads=8, ffn=24576, tied=False, bias=False),
    "nemotron 340b": gpt(18432, 96, 96, 256000, kv_heads=8, ffn=73728, tied=False, bias=False),
    "gpt3 5b": gpt(4096, 24, 32, 51200, positions=2048, ffn=16384),
    "gpt3 20b": gpt(6144, 44, 48, 51200, positions=2048, ffn=24576),
    "gpt3 175b": gpt(12288, 96, 96, 51200, positions=2048),
    "grok 314b": gpt(
        6144, 64, 48, 131072, kv_heads=8, ffn=32768, gated=True, bias=False, experts=8, top_k=2, head_dim=128
    ),
    "mixtral 8x7b": gpt(
        4096, 32, 32, 32000, kv_heads=8, ffn=14336, gated=True, tied=False, bias=False, experts=8, top_k=2
    ),
    "mixtral 8x22b": gpt(
        6144, 56, 48, 32768, kv_heads=8, ffn=16384, gated=True, tied=False, bias=False, experts=8, top_k=2
    ),
}

#: MPT of llm-foundry by its names: hidden, heads, layers. Vocabulary 50,368; learned positions.
MPT = {
    "125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 12, 24), "1b": (2048, 16, 24),
    "3b": (2560, 20, 32), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 56, 48), "70b": (8192, 64, 80),
}  # fmt: skip

#: nanotron's scaling models: hidden, layers, heads, MLP; multi-head attention, vocabulary 131,072. Which sizes these
#: are follows from the parameter counts (1.34, 3.57, 8.86, 80.0 B) to within 0.1 %.
NANOTRON = (
    gpt(2048, 16, 32, 131072, ffn=8192, gated=True, bias=False),
    gpt(3072, 28, 24, 131072, ffn=8192, gated=True, bias=False),
    gpt(4096, 32, 32, 131072, ffn=14336, gated=True, tied=False, bias=False),
    gpt(8192, 80, 64, 131072, ffn=28672, gated=True, tied=False, bias=False),
)


@dataclass(frozen=True)
class Case:
    """One measured run. ``group`` names rows with equal model, batch and accelerators (for the regret)."""

    file: str
    label: str
    workload: Workload
    machine: Machine
    layout: Layout
    stages: tuple[int, ...]
    seconds: float | None = None
    bytes: int | None = None
    group: str = ""
    model: str = ""
    refused: str = ""


def node(name: str, gpus: int) -> Machine:
    """``gpus`` accelerators in nodes of the named type; a part of one node when there are fewer."""
    one = machine_of(instances.get(name), 1)
    if gpus < one.per_node:
        return replace(one, per_node=gpus, inter_bandwidth=one.inter_bandwidth * gpus / one.per_node)
    return replace(one, nodes=-(-gpus // one.per_node))


def read(path: Path, machine: str | None = None, find: Any = node) -> list[Case]:
    """Every row of a CSV in a known shape; ValueError for another. ``machine`` overrides the shape's default."""
    # Spreadsheets put a byte order mark before the first column's name.
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            rows = list(csv.DictReader(file, skipinitialspace=True))
        except csv.Error as error:
            raise ValueError(f"{path}: {error}") from error
    if not rows:
        raise ValueError(f"{path}: no rows")
    columns = set(rows[0])
    for needed, reader in READERS:
        if needed <= columns:
            return [
                replace(case, file=path.name)
                for number, row in enumerate(rows, 2)
                for case in _cases(reader, row, number, path, machine, find)
            ]
    known = "; ".join(",".join(sorted(needed)) for needed, _ in READERS)
    raise ValueError(f"{path}: columns {sorted(columns)} are in none of the known shapes: {known}")


def _cases(reader: Any, row: dict[str, str], line: int, path: Path, machine: str | None, find: Any) -> list[Case]:
    """The cases of one row; what is missing, unreadable or impossible in it refuses the row, not the file."""
    try:
        cases = list(reader({k: v or "" for k, v in row.items() if k}, path, machine, find))
    except KeyError as error:
        return [_refused(row, f"line {line}", f"the column {error} is missing")]
    except (ValueError, OverflowError, ZeroDivisionError, InputError) as error:
        return [_refused(row, f"line {line}", f"cannot be read: {error}")]
    return [case if case.refused else _checked(case, line) for case in cases]


def _checked(case: Case, line: int) -> Case:
    """The case, or its refusal where sizes or measurements cannot be."""
    w, layout, ranks = case.workload, case.layout, case.machine.world_size
    d = w.dims
    sizes = (d.hidden, d.layers, d.heads, d.head_dim, d.vocab, w.sequence_length, w.global_batch_size)
    why = ""
    if min(sizes) < 1:
        why = "a size is not positive"
    elif max(sizes) > LARGEST:
        why = f"a size is beyond belief: at most {LARGEST:,} is read"
    elif layout.world_size > ranks:
        why = f"its layout needs {layout.world_size} accelerators, the row has {ranks}"
    elif layout.pp > w.dims.layers:
        why = f"pp={layout.pp} exceeds the {w.dims.layers} layers"
    elif case.seconds is not None and not 0 < case.seconds < float("inf"):
        why = "the measured speed is not a positive number"
    elif case.bytes is not None and case.bytes <= 0:
        why = "the measured bytes are not positive"
    elif case.seconds is None and case.bytes is None and "megatron" not in w.recipe:
        why = "it holds no measurement"
    return replace(case, refused=why, label=case.label or f"line {line}") if why else case


def _slower_network(machine: Machine) -> Machine:
    """vTrain's clusters: half the interfaces of a DGX A100 per node (its 16-way tensor-parallel row shows it)."""
    return replace(machine, inter_bandwidth=machine.inter_bandwidth / 2)


def _number(row: dict[str, str], key: str, default: int = 0) -> int:
    text = (row.get(key) or "").strip()
    return int(float(text)) if text else default


def _stages(layers: int, pp: int, chunks: int = 1) -> tuple[int, ...]:
    if max(layers, pp * chunks) > MOST_LAYERS:
        raise ValueError(f"{layers} layers in {pp * chunks} parts: at most {MOST_LAYERS} are believable")
    return balanced_stages(layers, pp * chunks)


def vtrain(row: dict[str, str], path: Path, machine: str | None, find: Any) -> Iterator[Case]:
    """GPT under Megatron-LM of 2021: fp16, vocabulary 51,200, plain data parallelism, full recomputation."""
    g = {key: float(value) for key, value in row.items()}
    dims = gpt(int(g["hidden"]), int(g["layers"]), int(g["heads"]), 51200, positions=int(g["seq"]), dropout=True)
    gpus, dp, pp = int(g["gpus"]), int(g["dp"]), int(g["pp"])
    mbs, batch = int(g["micro_batch"]), int(g["global_batch"])
    layout = Layout(
        pp=pp, dp_shard=dp, tp=int(g["tp"]), micro_batch_size=mbs, micro_batches=max(1, batch // (mbs * dp)),
        recompute="full",
    )  # fmt: skip
    size = f"{dims.params / 1e9:.1f}B"
    yield Case(
        file="",
        label=f"{size} L{dims.layers} tp{layout.tp} dp{dp} pp{pp} mbs{mbs} gbs{batch}",
        workload=Workload(
            dims, int(g["seq"]), batch, precision="fp16", recipe="megatron_fp16", stack="megatron_2021"
        ),
        machine=_slower_network(find(machine or "dgx-a100", gpus)) if machine is None else find(machine, gpus),
        layout=layout,
        stages=_stages(dims.layers, pp),
        seconds=g["ms_per_iter"] / 1e3,
        group=f"{dims.hidden}/{dims.layers}/{batch}/{gpus}",
        model=size if "params_b" in row else f"h{dims.hidden} L{dims.layers}",
    )


def _dgxc_shape(model: str) -> Dims | None:
    words = model.lower().replace("-", " ").replace("_", " ")
    size = re.search(r"\b(\d+x\d+b|\d+(\.\d+)?b)\b", words)
    if not size:
        return None
    for family in ("llama2", "llama 2", "llama", "nemotron", "mixtral", "grok", "gpt3", "gpt 3"):
        if family in words:
            name = f"{family.replace('llama 2', 'llama2').replace('gpt 3', 'gpt3')} {size[1]}"
            if name in SHAPES:
                return SHAPES[name]
    try:
        return dims_of(registry.load(model))
    except InputError:
        return None


def dgxc(row: dict[str, str], path: Path, machine: str | None, find: Any) -> Iterator[Case]:
    """NeMo on DGX H100: distributed optimizer with overlap, bf16 gradients, flash attention, no recomputation."""
    model, text = row["model"], row["layout"].upper()
    label = f"{row['tag']} {model} {row['precision']} {row['gpus']} GPUs {text} gbs{row['global_batch']}"
    lora = "LORA" in row["tag"].upper() or "LORA" in model.upper()
    dims = _dgxc_shape(model)
    gpus, seq = int(row["gpus"]), int(row["seq"])
    if dims is None:
        yield _refused(row, label, f"the shape of {model!r} is not in the table")
        return

    def degree(name: str) -> int:
        found = re.search(rf"\b{name}=?(\d+)", text)
        return int(found[1]) if found else 1

    tp, pp, cp, ep, chunks = (degree(name) for name in ("TP", "PP", "CP", "EP", "VP"))
    if pp > gpus:
        pp = 1
    dp = max(1, gpus // (tp * pp * cp))
    mbs, batch = int(row["micro_batch"]), int(row["global_batch"])
    workload = Workload(
        dims,
        seq,
        batch,
        precision="fp8" if "FP8" in row["precision"].upper() else "bf16",
        method="lora" if lora else "full",
        lora_rank=32,
        recipe="nemo",
        stack="nemo",
    )
    if lora:
        workload = replace(workload, lora_params=lora_params(workload))
    if dims.experts and ep == 1:
        ep = min(dims.experts, dp * cp)
    try:
        layout = Layout(
            pp=pp, dp_shard=dp, cp=cp, tp=tp, ep=ep, zero=1, sequence_parallel=tp > 1,
            schedule="interleaved" if chunks > 1 else "1f1b", micro_batch_size=mbs,
            micro_batches=max(1, batch // (mbs * dp)),
        )  # fmt: skip
    except LayoutError as error:
        yield _refused(row, label, str(error))
        return
    yield Case(
        file="",
        label=label,
        workload=workload,
        machine=find(machine or "dgx-h100", gpus),
        layout=layout,
        stages=_stages(dims.layers, pp, chunks),
        seconds=float(row["s_per_step"]),
        group=f"{model}/{row['precision']}/{lora}/{seq}/{batch}/{gpus}",
        model=f"{model} {row['precision']}{' LoRA' if lora else ''}",
    )


def llm_foundry(row: dict[str, str], path: Path, machine: str | None, find: Any) -> Iterator[Case]:
    """MPT under Composer and FSDP full sharding, flash attention; activation checkpointing is per block."""
    gpu, gpus, seq = row["gpu"], int(row["gpus"]), int(row["seq"])
    label = f"{gpu} {row['model']} seq{seq} {gpus} GPUs mbs{row['micro_batch']} ckpt {row['act_ckpt']}"
    size = row["model"].lower().removeprefix("mpt-")
    if size not in MPT:
        yield _refused(row, label, f"MPT {size!r} is not in the table")
        return
    hidden, heads, layers = MPT[size]
    dims = gpt(hidden, layers, heads, 50368, positions=seq, bias=False)
    chip = "h100" if "h100" in gpu else "a100-40gb" if "40" in gpu else "a100-80gb"
    name = machine or {"h100": "dgx-h100", "a100-40gb": "dgx-a100-320gb", "a100-80gb": "dgx-a100"}[chip]
    mbs, batch = int(row["micro_batch"]), int(row["global_batch"])
    precision = "fp8" if "fp8" in row["precision"].lower() else "bf16"
    full = "FULL" in row["sharding"].upper()
    layout = Layout(
        dp_shard=gpus, zero=3 if full else 2 if "GRAD" in row["sharding"].upper() else 0, micro_batch_size=mbs,
        micro_batches=max(1, batch // (mbs * gpus)),
        recompute="full" if row["act_ckpt"].strip().lower() == "true" else "none",
    )  # fmt: skip
    yield Case(
        file="",
        label=label,
        workload=Workload(dims, seq, batch, precision=precision, recipe="fsdp", stack="fsdp"),
        machine=find(name, gpus),
        layout=layout,
        stages=_stages(layers, 1),
        seconds=batch * seq / (float(row["tok_s_gpu"]) * gpus),
        group=f"{gpu}/{size}/{seq}/{batch}/{gpus}",
        model=size,
    )


def nanotron(row: dict[str, str], path: Path, machine: str | None, find: Any) -> Iterator[Case]:
    """Best cells of nanotron's sweep on H100 nodes of eight: sequences of 4,096, bf16, 1F1B, fp32 gradients."""
    nodes, billions, best = int(float(row["nodes"])), float(row["model_b"]), row["best"].upper()
    label = f"{billions:g}B {nodes} nodes {row['best']}"
    dims = min(NANOTRON, key=lambda d: abs(d.params / 1e9 / billions - 1))
    if abs(dims.params / 1e9 / billions - 1) > 0.05:
        yield _refused(row, label, f"no nanotron model of {billions:g}B is in the table")
        return

    def value(name: str) -> int:
        found = re.search(rf"{name}[-=]?(\d+)", best)
        return int(found[1]) if found else 1

    if not re.search(r"DP[-=]?\d", best):
        yield _refused(row, label, f"no layout such as 'DP8 TP2 PP1 GAS4 MBS2 ZeRO-1' in {row['best']!r}")
        return
    dp, tp, pp, gas, mbs = (value(name) for name in ("DP", "TP", "PP", "GAS", "MBS"))
    zero = value("ZERO") if "ZERO" in best else 0
    layout = Layout(
        pp=pp, dp_shard=dp, tp=tp, zero=1 if zero else 0, sequence_parallel=tp > 1, micro_batch_size=mbs,
        micro_batches=gas,
    )  # fmt: skip
    if layout.world_size != nodes * 8:
        what = f"its layout has {layout.world_size} ranks, {nodes} nodes of eight have {nodes * 8}"
        yield _refused(row, label, what)
        return
    batch, seq = dp * gas * mbs, 4096
    speed = float(row["tok_s_gpu"]) if (row.get("tok_s_gpu") or "").strip() else 0.0
    peak = (row.get("gb") or "").strip()
    yield Case(
        file="",
        label=label,
        workload=Workload(dims, seq, batch, recipe="nanotron", stack="nanotron"),
        machine=find(machine or "dgx-h100", nodes * 8),
        layout=layout,
        stages=_stages(dims.layers, pp),
        seconds=batch * seq / (speed * layout.world_size) if speed else None,
        bytes=int(float(peak) * 1e9) if peak else None,
        group=f"{billions:g}/{batch}/{nodes}",
        model=f"{billions:g}B",
    )


#: Tests whose configuration a dense or mixture-of-experts transformer does not describe, and why.
_NOT_DESCRIBED = {
    "grpo": "reinforcement learning: an inference engine shares the memory",
    "mimo": "vision encoder",
    "multimodal": "vision encoder",
    "llava": "vision encoder",
    "hybrid": "state-space layers",
    "nemotron3": "state-space layers",
    "muon": "the Muon optimizer is not planned for",
    "_mtp": "multi-token-prediction heads",
    "offloading": "activation offloading",
    "cudagraph": "CUDA graphs keep private memory pools",
    "t5": "encoder-decoder sizes are not in the row",
}


def megatron(row: dict[str, str], path: Path, machine: str | None, find: Any) -> Iterator[Case]:
    """Megatron-LM's functional tests on one node of eight: bf16 compute, fp32 gradients, peak of the last stage."""
    test = row["test"]
    label = f"{test} {row['file']}"
    for word, why in _NOT_DESCRIBED.items():
        if word in test.replace("no_mtp", ""):
            yield _refused(row, label, why)
            return
    if _number(row, "num-experts") >= 32:
        yield _refused(row, label, "the widths of its many small experts and its vocabulary are not in the row")
        return
    layers, hidden, heads = (_number(row, k) for k in ("num-layers", "hidden-size", "num-attention-heads"))
    tp = _number(row, "tensor-model-parallel-size", 1) or 1
    pp = _number(row, "pipeline-model-parallel-size", 1) or 1
    cp = _number(row, "context-parallel-size", 1) or 1
    ep = _number(row, "expert-model-parallel-size", 1) or 1
    experts = _number(row, "num-experts")
    per_chunk = _number(row, "num-layers-per-virtual-pipeline-stage")
    seq, mbs, batch = (_number(row, k) for k in ("seq-length", "micro-batch-size", "global-batch-size"))
    large = hidden >= 4096
    bert = "bert" in test
    vocab = 256000 if "15b" in test else 30592 if bert else 50304
    dims = gpt(
        hidden, layers, heads, vocab, kv_heads=_number(row, "num-query-groups"), positions=0 if large else seq,
        tied=not large, dropout=not large, bias=not large, experts=experts, top_k=2 if experts else 0,
        causal=not bert,
    )  # fmt: skip
    if experts and "etp1" in test:
        # Experts are not cut by tensor parallelism there, while the formulas divide them by tp.
        dims = replace(dims, expert_params=dims.expert_params * tp)
    # Functional tests run on one node; the release tests, which train 15B and more, on eight.
    gpus = max(64 if large and not batch else 8, tp * pp * cp)
    dp = max(1, gpus // (tp * pp * cp))
    chunks = max(1, layers // (pp * per_chunk)) if per_chunk and pp > 1 else 1
    where = f"{row['file']} {path.name}".lower()
    default = "dgx-a100" if "a100" in where else "dgx-gb200" if "gb200" in where else "dgx-h100"
    recompute = {"full": "full", "selective": "selective"}.get(row.get("recompute-granularity", ""), "none")
    sequence_parallel = tp > 1 and (row.get("sequence-parallel", "") == "true")
    zero3 = "zp_z3" in test
    # Each instance of the distributed optimizer shards over its own part of the data ranks.
    instances_ = 2 if "multi_dist_optimizer_instances" in test and dp % 2 == 0 else 1
    try:
        layout = Layout(
            pp=pp, dp_replicate=instances_, dp_shard=dp // instances_, cp=cp, tp=tp,
            ep=min(ep, dp // instances_ * cp) if experts else 1,
            zero=3 if zero3 else 1 if row.get("use-distributed-optimizer") == "true" else 0,
            sequence_parallel=sequence_parallel, schedule="interleaved" if chunks > 1 else "1f1b",
            micro_batch_size=mbs, micro_batches=max(1, batch // (mbs * dp)) if batch else 4 * pp, recompute=recompute,
        )  # fmt: skip
    except LayoutError as error:
        yield _refused(row, label, str(error))
        return
    precision = "fp8" if "fp8" in test else "bf16"
    # Only Transformer Engine has fused attention here, BERT's masks exclude it, and the tests that are not resumed
    # disable it: their peaks are larger by exactly the 5·a·s² bytes per layer of Korthikanti et al. 2022, eq. 1.
    fused = large or cp > 1 or precision == "fp8" or ("_te_" in test and "resume" in test)
    stack = "megatron" if fused and not bert else "megatron_unfused"
    gib = (row.get("GiB") or "").strip()
    time = (row.get("s_per_iter") or "").strip()
    yield Case(
        file="",
        label=label,
        workload=Workload(
            dims, seq, batch or layout.global_batch_size, precision=precision, recipe="megatron", stack=stack
        ),
        machine=find(machine or default, gpus),
        layout=layout,
        stages=_stages(layers, pp, chunks),
        # Iterations below half a second on models of 60M parameters measure the host, and differ 1.5× between
        # two runs of one test in this very file: only larger ones say something about the planner.
        seconds=float(time) if time and batch and large else None,
        bytes=round(float(gib) * GIB) if gib else None,
        group=f"{test}",
        model=test.split("/")[0],
    )


def _refused(row: dict[str, str], label: str, why: str) -> Case:
    dims = gpt(8, 1, 1, 8)
    machine = node("dgx-h100", 8)
    return Case("", label, Workload(dims, 1, 1), machine, Layout(), (1,), refused=why)


READERS: tuple[tuple[set[str], Any], ...] = (
    (
        {"gpus", "global_batch", "micro_batch", "hidden", "heads", "layers", "seq", "tp", "dp", "pp", "ms_per_iter"},
        vtrain,
    ),
    ({"tag", "model", "precision", "seq", "layout", "micro_batch", "gpus", "global_batch", "s_per_step"}, dgxc),
    (
        {"gpu", "model", "seq", "gpus", "micro_batch", "global_batch", "tok_s_gpu", "sharding", "act_ckpt"},
        llm_foundry,
    ),
    ({"nodes", "model_b", "best", "tok_s_gpu"}, nanotron),
    ({"test", "file", "num-layers", "hidden-size", "GiB"}, megatron),
)
