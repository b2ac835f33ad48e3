"""Seconds of one optimizer step under one layout: compute, every collective on its link, the pipeline, the update.

Puts compute, network and schedule together. ``StepModel.seconds`` takes a layout (or the search's tuple with the
same names) and the layers of its stages, gives ``StepSeconds``. It is the inner loop of the search: plain floats,
caches per micro-batch shape, no validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log2

from trainwright.models.stages import balanced_stages
from trainwright.planner.compute import Compute, LayerSeconds
from trainwright.planner.constants import Constants
from trainwright.planner.memory import Cut, Memory
from trainwright.planner.network import Group, Network, group
from trainwright.planner.plan import StepSeconds
from trainwright.planner.schedule import pipeline_seconds
from trainwright.planner.workload import ELEMENT_BYTES, OPTIMIZER_BYTES, Machine, Workload

#: Bytes/s at which a host's cores update offloaded optimizer state, per accelerator (memory-bound Adam on the CPU).
HOST_UPDATE_BANDWIDTH = 15e9
#: Sequential bytes/s of one node's local NVMe array.
NVME_BANDWIDTH = 12e9


class StepModel:
    """Evaluates layouts of one workload on one machine. ``stages``: layers of each stage, where they are given."""

    def __init__(self, workload: Workload, machine: Machine, constants: Constants, stages: tuple[int, ...] = ()):
        self._given = stages
        self.workload = workload
        self.machine = machine
        self.constants = constants
        self.compute = Compute(workload, machine, constants)
        self.network = Network(machine, constants.network)
        self.memory = Memory(workload, constants.stack)
        self._element = ELEMENT_BYTES[workload.precision]
        self._layers: dict[tuple[int, int, int, int, bool], LayerSeconds] = {}
        self._ends: dict[tuple[int, int, int], tuple[float, float]] = {}

    def groups(self, cut: Cut) -> dict[str, Group]:
        """Where each dimension's ranks lie; mesh order of CONTRACTS: pp, dp_replicate, dp_shard, cp, tp."""
        n = self.machine.per_node
        inner = cut.tp * cut.cp
        return {
            "tp": group(cut.tp, 1, n),
            "cp": group(cut.cp, cut.tp, n),
            "ep": group(cut.ep, cut.tp, n),
            "dp_shard": group(cut.dp_shard * cut.cp, cut.tp, n),
            "expert_data": group(cut.dp_shard * cut.cp // cut.ep, cut.tp * cut.ep, n),
            "dp_replicate": group(cut.dp_replicate, inner * cut.dp_shard, n),
        }

    def layer(self, cut: Cut) -> LayerSeconds:
        """Compute of the mean layer, cached per micro-batch shape."""
        key = (cut.tp, cut.cp, cut.ep, cut.micro_batch_size, cut.sequence_parallel)
        found = self._layers.get(key)
        if found is None:
            found = self._layers[key] = self.compute.layer(*key)
        return found

    def ends(self, cut: Cut) -> tuple[float, float]:
        """Seconds of (embedding, head and loss) for one micro-batch, forward and backward."""
        key = (cut.tp, cut.cp, cut.micro_batch_size)
        found = self._ends.get(key)
        if found is None:
            found = self._ends[key] = (
                self.compute.embedding(cut.cp, cut.micro_batch_size),
                self.compute.head(*key),
            )
        return found

    def stages(self, cut: Cut, virtual: int) -> tuple[int, ...]:
        """Layers of each of ``virtual`` stages, so that the slowest takes least: embedding and head weigh what they
        take, in layers (to a tenth: less is below what is known of their time). Stages that were given are taken.
        """
        if len(self._given) == virtual:
            return self._given
        layer = self.layer(cut)
        again = {"full": layer.forward, "selective": layer.attention_forward}.get(cut.recompute, 0.0)
        one = layer.forward + layer.backward + again
        embedding, head = (round(end / one, 1) for end in self.ends(cut))
        return balanced_stages(self.workload.dims.layers, virtual, embedding, head)

    def seconds(
        self,
        cut: Cut,
        stages: Sequence[int],
        *,
        data_parallel: bool = True,
    ) -> StepSeconds:
        """Exposed seconds by kind of one optimizer step. ``stages``: layers of each virtual pipeline stage.

        Without ``data_parallel`` its collectives and the update are left out: what no split of the data ranks beats.
        """
        w, d, stack, net = self.workload, self.workload.dims, self.constants.stack, self.network
        groups = self.groups(cut)
        layer = self.layer(cut)
        m = cut.micro_batches
        chunks = max(1, len(stages) // cut.pp)
        per_rank = [sum(stages[s :: cut.pp]) for s in range(cut.pp)]
        tokens = cut.micro_batch_size * w.sequence_length / cut.cp
        hidden_bytes = self._element * tokens * d.hidden

        forward, backward = layer.forward, layer.backward
        if cut.recompute == "full":
            backward += layer.forward
        elif cut.recompute == "selective":
            backward += layer.attention_forward

        # Tensor parallelism: two all-reduces a pass, or gather + scatter of the same volume (Korthikanti, §4.2.2).
        tp_layer = host_collectives = 0.0
        if cut.tp > 1:
            one = net.all_reduce(hidden_bytes, groups["tp"])
            passes = 2 if cut.recompute == "full" else 1
            kept_back = max(2 * one * (1 - stack.tp_overlap_backward), 2 * one - layer.weight_gradient)
            tp_layer = passes * 2 * one * (1 - stack.tp_overlap_forward) + kept_back
            # Hosts run at their own pace: each collective waits for the slowest, the longer the more there are.
            host_collectives += (2 * passes + 2) * stack.collective_seconds * log2(cut.tp)
        # Context parallelism: keys and values travel around the ring while attention computes.
        cp_layer = 0.0
        if cut.cp > 1:
            kv = self._element * tokens * 2 * d.kv_size / cut.tp
            ring = (cut.cp - 1) * net.send(kv, groups["cp"].nodes > 1)
            window = layer.core_attention * (cut.cp - 1) / cut.cp * stack.overlap_window
            passes = 3 if cut.recompute == "none" else 4
            # Each arriving part's output is merged with what is there: read both, write one, in fp32.
            merge = (cut.cp - 1) * self.compute.moved(12.0 * tokens * d.q_size / cut.tp, 2)
            cp_layer = passes * (max(0.0, ring - window) + 0.1 * ring + merge)
            host_collectives += 2 * (cut.cp - 1) * stack.collective_seconds
        # Expert parallelism: dispatch and combine, forward and backward.
        ep_layer = 0.0
        if cut.ep > 1 and d.experts:
            routed = self._element * tokens * d.top_k * d.hidden / (cut.tp if cut.sequence_parallel else 1)
            passes = 6 if cut.recompute == "full" else 4
            ep_layer = passes * net.all_to_all(routed, groups["ep"]) * d.moe_layers / d.layers
            host_collectives += passes * stack.collective_seconds

        # Data parallelism with parameters sharded: gathered for both passes, gradients scattered, each micro-batch.
        dense, experts, _ = self.memory.stage_params(cut, 1, False, False)
        gather_layer = 0.0
        compute_layer = forward + backward
        sharded = cut.dp_shard * cut.cp > 1
        reduced = w.state.reduced if w.method == "full" else w.state.reduced * w.lora_params / max(1, d.params)
        if data_parallel and cut.zero >= 3 and sharded:
            gathered = w.state.gathered
            gather_layer = 2 * self._over_shards(net.all_gather, groups, dense * gathered, experts * gathered)
            gather_layer += self._over_shards(net.all_gather, groups, dense * reduced, experts * reduced)
            host_collectives += 3 * stack.collective_seconds
        elif data_parallel and cut.zero == 2 and sharded:
            gather_layer = self._over_shards(net.all_gather, groups, dense * reduced, experts * reduced)
            host_collectives += stack.collective_seconds
        dp_layer = 0.0
        if gather_layer:
            window = compute_layer * stack.overlap_window
            hidden = min(gather_layer, window)
            dp_layer = gather_layer - hidden
            compute_layer += stack.overlap_slowdown * hidden

        # The host launches kernels ahead of the device; a layer takes what the slower of the two takes.
        host_layer = stack.layer_forward_seconds + stack.layer_backward_seconds + host_collectives
        if cut.recompute == "full":
            host_layer += stack.layer_forward_seconds
        device_layer = compute_layer + tp_layer + cp_layer + ep_layer + dp_layer
        embedding, head = self.ends(cut)
        stage_seconds = []
        for s, count in enumerate(per_rank):
            edge = (embedding if s == 0 else 0.0) + (head if s == cut.pp - 1 else 0.0)
            host = stack.micro_batch_seconds * ((s == 0) + (s == cut.pp - 1)) / 2
            # A host that waits for the device cannot launch the next layers while embedding and loss run.
            ends = edge + host if stack.host_waits else max(edge, host)
            stage_seconds.append(count * max(device_layer, host_layer) + ends)

        # Pipeline sends: forward and backward of every chunk.
        sends = 0.0
        if cut.pp > 1:
            size = hidden_bytes / cut.tp if cut.sequence_parallel or stack.p2p_scatter else hidden_bytes
            crosses = cut.dp_replicate * cut.dp_shard * cut.cp * cut.tp >= self.machine.per_node
            sends = 2 * chunks * net.send(size, crosses) * (1 - stack.p2p_overlap)
        sending = [t + sends for t in stage_seconds]
        weights = layer.weight_gradient / (forward + backward)
        busy, bubble = pipeline_seconds(cut.schedule, sending, m, chunks, weights)

        slowest = stage_seconds.index(max(stage_seconds))
        count = per_rank[slowest]
        dense, experts, _ = self.memory.stage_params(cut, count, slowest == 0, slowest == cut.pp - 1)
        dp = optimizer = 0.0
        if data_parallel:
            dp = self._gradients(cut, groups, dense, experts, stage_seconds[slowest])
            optimizer = self._optimizer(cut, dense, experts) + stack.step_seconds
        shares = [count * x * m for x in (tp_layer, cp_layer, ep_layer, dp_layer)]
        moved = sends * m
        # What the host's launches hide is not exposed: scale the parts to the stage's time.
        compute = busy - moved - sum(shares)
        if compute < 0.0:
            compute = 0.0
        floor = count * compute_layer * m
        if compute < floor and sum(shares) > 0:
            squeeze = max(0.0, (busy - moved - floor) / sum(shares))
            shares = [x * squeeze for x in shares]
            compute = busy - moved - sum(shares)
        return StepSeconds(
            compute=compute,
            tp=shares[0],
            cp=shares[1],
            ep=shares[2],
            dp=shares[3] + dp,
            pp_p2p=moved,
            bubble=bubble,
            optimizer=optimizer,
            data=0.0,
            checkpoint=0.0,
        )

    @staticmethod
    def _over_shards(
        collective: Callable[[float, Group], float], groups: Mapping[str, Group], dense: float, experts: float
    ) -> float:
        """Seconds of a collective of so many bytes over the shards. Experts that are dealt out meet only the ranks of
        the same experts: those lie ep apart, so that a node's ranks no longer share one node's worth of traffic.
        """
        shards, same_experts = groups["dp_shard"], groups["expert_data"]
        if shards == same_experts:
            return collective(dense + experts, shards)
        return collective(dense, shards) + collective(experts, same_experts)

    def _gradients(
        self,
        cut: Cut,
        groups: dict[str, Group],
        dense: float,
        experts: float,
        stage_seconds: float,
    ) -> float:
        """Exposed seconds of what happens once a step: gradient reduction, and gathering updated parameters."""
        w, stack, net = self.workload, self.constants.stack, self.network
        share = 1.0 if w.method == "full" else w.lora_params / max(1, w.dims.params)
        dense, experts = dense * share, experts * share
        shards, same_experts = groups["dp_shard"].size, groups["expert_data"].size
        total = gathered = 0.0
        reduced = (dense * w.state.reduced, experts * w.state.reduced)
        if shards > 1 and cut.zero < 3:
            if cut.zero == 0:
                total += self._over_shards(net.all_reduce, groups, *reduced)
            else:
                whole = w.state.gathered
                gathered = self._over_shards(net.all_gather, groups, dense * whole, experts * whole)
                if cut.zero != 2:  # there each micro-batch has scattered its own
                    total += self._over_shards(net.all_gather, groups, *reduced)
        if cut.dp_replicate > 1:
            part = reduced[0] / shards + reduced[1] / same_experts if cut.zero >= 1 else sum(reduced)
            total += net.all_reduce(part, groups["dp_replicate"])
        if not stack.dp_overlap:
            return total + gathered
        # Reduction hides behind the last micro-batch's backward, gathering behind the first one's forward where a
        # stack does not wait for it at the end of the update.
        waits = 0.0 if stack.gather_overlap or w.state.fsdp else gathered
        total += gathered - waits
        window = stage_seconds * stack.overlap_window
        return max(0.0, total - window) + stack.overlap_slowdown * min(total, window) + waits

    def _optimizer(self, cut: Cut, dense: float, experts: float) -> float:
        w = self.workload
        shard = cut.dp_shard * cut.cp
        share = 1.0 if w.method == "full" else w.lora_params / max(1, w.dims.params)
        held = (dense + experts) * share
        stepped = (dense / shard + experts / (shard / cut.ep)) * share if cut.zero >= 1 else held
        if w.offload_optimizer == "none":
            return self.compute.optimizer(stepped)
        # Gradients go down and weights come back over PCIe; the host's memory bandwidth bounds the update.
        link = stepped * (w.state.reduced + w.state.gathered) / self.machine.pcie_bandwidth
        state = w.state.master + OPTIMIZER_BYTES[w.optimizer]
        update = 2 * stepped * state / HOST_UPDATE_BANDWIDTH
        if w.offload_optimizer == "nvme":
            update += 2 * stepped * state * self.machine.per_node / NVME_BANDWIDTH
        return link + update
