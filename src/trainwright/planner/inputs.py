"""From facts and shapes to the planner's plain values.

Takes a ``ModelShape`` and a fact table's machine; gives ``Dims`` and ``Machine``. The only place of the planner that
knows how those are stored.
"""

from __future__ import annotations

from dataclasses import fields, replace

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts import machines
from trainwright.facts.data import read_file
from trainwright.models.shape import ModelShape
from trainwright.planner.constants import ChipConstants, NetworkConstants, StackConstants, constants_date
from trainwright.planner.workload import Dims, Fabric, Machine

#: How the fact tables' fabrics behave: NVLink without a switch but all-to-all is as good as a switch within a node.
_FABRICS: dict[str, Fabric] = {
    "nvswitch": "nvswitch",
    "nvlink": "nvswitch",
    "nvlink_pairs": "nvlink_pairs",
    "neuronlink": "neuronlink",
    "infinity_fabric": "nvswitch",
    "pcie": "pcie",
    "none": "none",
}


def dims_of(shape: ModelShape) -> Dims:
    """What the formulas read of a shape. Parameter totals are exact; unequal layers become their mean."""
    blocks = max(1, shape.blocks)
    count = shape.parameters
    in_blocks = [shape.block_parameters(i) for i in range(shape.blocks)]
    block_norms = sum(c.norms for c in in_blocks)
    attention = sum(c.attention for c in in_blocks)
    dense = sum(c.mlp + c.router for c in in_blocks)
    experts = sum(c.experts for c in in_blocks)
    moe = shape.moe if shape.is_moe else None
    sparse = len(moe.layers) if moe else 0
    matrices = 3 if shape.gated else 2
    dense_width = sum(
        linear.outputs
        for i in range(shape.blocks)
        for linear in shape.block_linears(i)
        if linear.name in ("up", "shared_up") and linear.kind == "mlp"
    )
    windows = [w for w in shape.windows if w]
    embedding = shape.embedding_parameters
    layer = Dims(
        hidden=shape.hidden,
        layers=blocks,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=(shape.key_dim + shape.value_dim) // 2,
        ffn=round(dense_width / blocks),
        gated=matrices == 3,
        vocab=shape.vocab,
        tied=shape.tied,
        max_positions=shape.max_positions,
        attention_params=attention // blocks,
        mlp_params=dense // blocks,
        norm_params=block_norms // blocks,
        embedding_params=embedding.total,
        head_params=0,
        causal=shape.causal,
        has_head=True,
        experts=moe.experts if moe else 0,
        top_k=moe.top_k if moe else 0,
        expert_ffn=moe.intermediate if moe else 0,
        expert_params=experts // sparse if sparse else 0,
        moe_layers=sparse,
        window=max(windows) if windows else 0,
        window_layers=len(windows),
        dropout=shape.dropout > 0,
        name=shape.name,
    )
    head = shape.head_parameters
    # Remainders of the means and everything outside the blocks go to the last stage, so that the total is exact.
    layer = replace(layer, head_params=head.head)
    return replace(layer, final_params=count.total - layer.params)


def machine_of(node: machines.Machine, nodes: int, *, price: float | None = None, price_date: str = "") -> Machine:
    """A cluster of ``nodes`` of one node type. ``price`` is US dollars per node and hour."""
    chip = node.accelerator
    peak = tuple((name, float(value)) for name, value in chip.flops.items() if value)
    price = price if price is not None else node.usd_per_hour
    per_node, bandwidth = node.count, node.network_bandwidth
    if node.fabric_domain > node.count and nodes > 1:
        # A scale-up domain that spans nodes (NVL72) behaves as one large node.
        whole = min(node.fabric_domain // node.count, nodes)
        if nodes % whole == 0:
            nodes, per_node, bandwidth = nodes // whole, node.count * whole, bandwidth * whole
            price = None if price is None else price * whole
    return Machine(
        name=node.name,
        accelerator=chip.name,
        nodes=nodes,
        per_node=per_node,
        memory_bytes=chip.memory_usable,
        peak=peak,
        memory_bandwidth=chip.memory_bandwidth,
        intra_bandwidth=node.fabric_bandwidth or chip.pcie_bandwidth or 10e9,
        # Measured efficiency where there is one; the network constants hold the rest (``inter_efficiency``).
        inter_bandwidth=bandwidth,
        fabric=_FABRICS[node.fabric],
        pcie_bandwidth=chip.pcie_bandwidth or 10e9,
        host_memory_bytes=(node.memory or 0) * per_node // node.count,
        nvme_bytes=(node.nvme or 0) * per_node // node.count,
        price=price,
        price_date=price_date,
        facts_date=max(node.date, str(read_file("instances")["date"]), constants_date()),
    )


def overlay_of(node: machines.Machine) -> dict[str, dict[str, float]]:
    """The constants that a user's machine file sets: ``calibration: {chip.gemm_efficiency: 0.61, …}``."""
    overlay: dict[str, dict[str, float]] = {}
    problems = []
    known = {
        "chip": {f.name for f in fields(ChipConstants)},
        "network": {f.name for f in fields(NetworkConstants)},
        "stack": {f.name for f in fields(StackConstants)},
    }
    for name, value in node.calibration.items():
        part, _, constant = name.partition(".")
        if constant in known.get(part, ()):
            overlay.setdefault(part, {})[constant] = float(value)
        else:
            legal = [f"{table}.{one}" for table, names in known.items() for one in sorted(names)]
            problems.append(
                Problem(node.name, field="calibration", what=f"has {name!r}", instead=did_you_mean(name, legal))
            )
    if problems:
        raise InputError(problems)
    return overlay
