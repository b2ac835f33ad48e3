"""DeepSpeed's ZeRO as the engine of a run: its forward, backward and update in place of torch's own.

Takes the module whose forward is the loss, the optimizer and the JSON of ``spec.deepspeed``; gives what the trainer
steps with. Its state is saved under the model's own names, each tensor whole on one rank, so a checkpoint of either
engine loads into the other and under any number of ranks. Data parallelism only.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from trainwright.errors import AnswerNo, MissingExtra
from trainwright.models.layout import Layout
from trainwright.spec.deepspeed import Computed, deepspeed_config
from trainwright.spec.model import RunSpec
from trainwright.training.attention import choose_kernel
from trainwright.training.devices import Device
from trainwright.training.mesh import DataRanks
from trainwright.training.model import Built, recompute_blocks
from trainwright.training.objective import Objective
from trainwright.training.optim import build_optimizer
from trainwright.training.parallel import expert
from trainwright.training.parallel.data import Compute, DataParallel, MicroBatch, is_last
from trainwright.training.precision import LossScale, Precision
from trainwright.training.step import Stepper, Update

State = dict[str, Any]


def refuse(spec: RunSpec, layout: Layout, precision: str, device_type: str) -> None:
    """Raise AnswerNo for what this engine cannot do, all at once. ``precision`` is what the spec's comes to."""
    found = [
        (f"parallelism.{name} is {getattr(layout, name)}", f"{name}: 1")
        for name in ("pp", "cp", "tp", "ep")
        if getattr(layout, name) > 1
    ]
    if layout.zero and layout.dp_replicate > 1:
        ranks = layout.data_parallel
        found.append((f"zero is {layout.zero} with dp_replicate {layout.dp_replicate}", f"dp_shard: {ranks}"))
    if spec.offload.parameters != "none" and layout.zero < 3:
        found.append((f"offload.parameters is {spec.offload.parameters} with zero {layout.zero}", "zero: 3"))
    if spec.offload.optimizer != "none" and layout.zero < 1:
        found.append((f"offload.optimizer is {spec.offload.optimizer} with zero 0", "zero: 1, 2 or 3"))
    if "nvme" in (spec.offload.optimizer, spec.offload.parameters):
        found.append(("offload names nvme, and checkpoints of state on drives are not proved yet", "offload to cpu"))
    if spec.optimizer.name == "adafactor" and layout.zero:
        found.append(("optimizer.name is adafactor, and ZeRO flattens matrices", "adamw, or zero: 0"))
    if spec.compile:
        found.append(("compile is true", "compile: false"))
    if precision == "fp16" and device_type == "cpu":
        found.append(("precision is fp16 on a CPU", "precision: fp32 or bf16"))
    if precision in ("bf16", "fp16") and not layout.zero:
        found.append((f"precision is {precision} with zero 0, whose fp32 weights it hides", "zero: 1, 2 or 3"))
    if found:
        raise AnswerNo(
            f"engine: deepspeed cannot run this: {'; '.join(what for what, _ in found)}",
            f"set {', '.join(way for _, way in found)}; or engine: native",
        )


def build_stepper(
    built: Built,
    spec: RunSpec,
    layout: Layout,
    mesh: DeviceMesh,
    data: DataRanks,
    precision: Precision,
    device: Device,
) -> Stepper:
    """Hand a model and its optimizer to DeepSpeed. Collective. MissingExtra where it is not installed, AnswerNo for
    what it cannot do, InputError for a JSON that contradicts the spec.
    """
    refuse(spec, layout, precision.name, device.type)
    wanted = expert.wanted(built.network, layout, spec.experts)
    sparse = expert.apply(built.network, wanted, layout, mesh) if wanted else None
    kernel = choose_kernel(spec.attention, device.type, precision.compute)
    module = Objective(built.network, kernel, layout.recompute == "selective").to(device.torch).train()
    module.routed = sparse is not None
    if layout.recompute == "full":
        recompute_blocks(built.blocks)
    optimizer = build_optimizer(built.network, spec.optimizer, device.type)
    engine = _engine(spec, layout, module, optimizer, precision, device)
    parallel = DeepSpeedEngine(engine, float(data.size))
    parallel.balance = sparse.balance if sparse else None
    scale = EngineScale(engine.optimizer.loss_scaler) if precision.name == "fp16" else LossScale(enabled=False)
    return DeepSpeedStepper(
        parallel, optimizer, device, precision, scale, spec.clip, spec.seed, data.stream,
        check_each_step=True,
    )  # fmt: skip


def _engine(
    spec: RunSpec,
    layout: Layout,
    module: Objective,
    optimizer: torch.optim.Optimizer,
    precision: Precision,
    device: Device,
) -> Any:  # Any: deepspeed is not typed
    os.environ.setdefault("DS_ACCELERATOR", device.type)
    deepspeed = _import()
    computed: Computed = "fp32" if not precision.is_mixed else "bf16" if precision.name == "bf16" else "fp16"
    config = deepspeed_config(spec, layout, computed, int(module.inner.config.get_text_config().hidden_size))
    # The optimizer is an object here: as the trainer builds it, whatever the engine.
    config = {name: value for name, value in config.items() if name != "optimizer"}
    engine, *_ = deepspeed.initialize(model=module, optimizer=optimizer, config=config, dist_init_required=False)
    head = module.inner.get_output_embeddings()
    if layout.zero == 3 and head is not None:
        # Its weights are read by the loss, outside its own forward.
        for parameter in head.parameters(recurse=False):
            deepspeed.zero.register_external_parameter(module, parameter)
    return engine


def _import() -> Any:
    try:
        import deepspeed
    except ImportError:
        raise MissingExtra("engine: deepspeed", "deepspeed") from None
    # Its configuration and every hook that it sets, a line each; what it warns of stays.
    deepspeed.utils.logger.setLevel(logging.WARNING)
    if os.environ["DS_ACCELERATOR"] == "cpu":
        # No extension is of use, and none is looked for: among them is an all-reduce in shared memory that is
        # compiled at first use, which takes 40 s and a compiler for a step on a CPU.
        deepspeed.ops.__compatible_ops__ = {}
    return deepspeed


class DeepSpeedEngine(DataParallel):
    """DeepSpeed's engine as the trainer's data parallelism: gradients are means over ranks of weighted sums."""

    #: The engine casts the model.
    autocast = False

    def __init__(self, engine: Any, ranks: float):
        super().__init__(engine, loss_factor=ranks)
        self.engine = engine

    @property
    def wraps_optimizer(self) -> bool:
        """False where the optimizer is torch's own and gradients lie in the parameters: stage 0 in fp32."""
        return self.engine.optimizer is not self.engine.basic_optimizer

    def gradients(self, work: Sequence[MicroBatch], compute: Compute) -> tuple[Tensor, ...]:
        """Backward of every micro-batch of a step; the sum of each one's loss."""
        losses = []
        for number, one in enumerate(work):
            self.engine.set_gradient_accumulation_boundary(is_last(number, len(work)))
            loss, total = compute(self.module, one.seed, one.batch, one.weight, one.row_weight)
            # Its own division by the number of micro-batches is for means; the weight has divided already. A product,
            # because at stage 0 a hook on the module's own output would divide it all the same.
            self.engine.backward(loss * 1.0, scale_wrt_gas=False)
            losses.append(total)
        return tuple(losses)

    def step(self, lr: float) -> tuple[Tensor, bool]:
        """Clip and update at rate ``lr``; (norm before clipping, whether it was finite and applied)."""
        for group in self.engine.optimizer.param_groups:
            group["lr"] = lr
        self.engine.step()
        applied = bool(self.engine.was_step_applied())
        norm = self.engine.get_global_grad_norm() if applied else float("inf")
        return torch.as_tensor(norm, dtype=torch.float64).detach().clone(), applied


class EngineScale(LossScale):
    """The loss scale that DeepSpeed's engine multiplies by and moves: here to be asked, saved and taken up again."""

    def __init__(self, scaler: Any):
        super().__init__(enabled=False)
        self._scaler = scaler
        scaler.raise_error_at_min_scale = False  # what is not finite then is told with its samples

    @property
    def at_bottom(self) -> bool:
        """True when an overflow can no longer be blamed on the scale."""
        return not self._scaler.dynamic or self._scaler.cur_scale <= self._scaler.min_scale

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint; those of the trainer's own scale, and how many overflows are let pass."""
        scaler = self._scaler
        if not scaler.dynamic:
            return super().state()
        good = scaler.cur_iter - scaler.last_overflow_iter - 1
        return {"value": float(scaler.cur_scale), "good_steps": good, "hysteresis": scaler.cur_hysteresis}

    def load(self, state: dict[str, Any]) -> None:
        """Take up where a checkpoint of either engine left off."""
        scaler = self._scaler
        if scaler.dynamic:
            scaler.cur_scale, scaler.last_overflow_iter = float(state["value"]), -1
            scaler.cur_iter = int(state["good_steps"])
            scaler.cur_hysteresis = int(state.get("hysteresis", scaler.delayed_shift))


class DeepSpeedStepper(Stepper):
    """Steps by DeepSpeed's engine; where that leaves the optimizer alone, by the trainer's own code."""

    parallel: DeepSpeedEngine

    def update(self, lr: float) -> Update:
        """Clip and apply the gradients. What is not finite changes nothing."""
        if not self.parallel.wraps_optimizer:
            return super().update(lr)
        norm, applied = self.parallel.step(lr)
        return Update(norm, applied)

    # -- state ------------------------------------------------------------------------------------------------------

    def state(self, network: nn.Module) -> State:
        """Weights and optimizer state under the model's names. Each tensor is on one rank of all: gathered one after
        the other, they never lie whole on every rank at once. Collective.
        """
        if not self.parallel.wraps_optimizer:
            return super().state(network)
        self._make_states()
        model: dict[str, Tensor] = {}
        optimizer: dict[str, dict[str, Any]] = {}
        keys, steps = self._keys(), self._steps()
        for number, (name, parameter) in enumerate(_trained(network)):
            value = _whole(parameter, None)
            states = {key: _whole(parameter, key) for key in keys}
            if number % dist.get_world_size() == dist.get_rank():
                model[name] = value.cpu()
                optimizer[name] = {key: state.cpu() for key, state in states.items()}
                optimizer[name] |= {} if steps is None else {"step": torch.tensor(steps, dtype=torch.float32)}
        parameters = {name for name, _ in network.named_parameters(remove_duplicate=False)}
        held = {name: value for name, value in network.state_dict().items() if name not in parameters}
        return {"model": {**held, **model}, "optimizer": optimizer}

    def restore(self, network: nn.Module, state: State) -> None:
        """Take over what was loaded into ``state``. Collective."""
        if not self.parallel.wraps_optimizer:
            super().restore(network, state)
            return
        device, keys, steps = self.device.torch, self._keys(), 0.0
        for number, (name, parameter) in enumerate(_trained(network)):
            owner = number % dist.get_world_size()
            mine = owner == dist.get_rank()
            shape = getattr(parameter, "ds_shape", parameter.shape)
            for key in (None, *keys):
                held = state["model"] if key is None else state["optimizer"].get(name, {})
                value = torch.empty(shape, device=device)
                if mine:
                    value.copy_(held[name if key is None else key])
                dist.broadcast(value, src=owner)
                _put(parameter, value, key)
            if mine and "step" in state["optimizer"][name]:
                steps = float(state["optimizer"][name]["step"])
        if dist.get_world_size() > 1:
            most = torch.tensor(steps)
            dist.all_reduce(most, dist.ReduceOp.MAX)
            steps = float(most)
        self._set_steps(steps)

    @property
    def _base(self) -> torch.optim.Optimizer:
        base: torch.optim.Optimizer = self.parallel.engine.basic_optimizer
        return base

    def _make_states(self) -> None:
        """Let every parameter find its part of the optimizer's state, which is made where no step has made it."""
        self._fill_states()
        zero = self.parallel.engine.optimizer
        if hasattr(zero, "_lazy_init_hp_params_optimizer_state"):
            # Stages 1 and 2 do so after the update of the first group, when the others' state is not there yet.
            zero._hp_optimizer_states_linked = False
            zero._lazy_init_hp_params_optimizer_state()

    def _fill_states(self) -> None:
        """Give an optimizer that has not stepped its zeros: a step of gradients of zero at rate zero."""
        missing = [(group, flat) for group, flat in self._flats() if flat not in self._base.state]
        if not missing:
            return
        kept = [(group, group["params"], group["lr"]) for group in self._base.param_groups]
        for group, _, _ in kept:
            group["params"], group["lr"] = [], 0.0
        for group, flat in missing:
            gradient, flat.grad = flat.grad, torch.zeros_like(flat)
            group["params"] = [flat]
            self._base.step()
            group["params"], flat.grad = [], gradient
        for group, parameters, rate in kept:
            group["params"], group["lr"] = parameters, rate
        self._set_steps(0.0)

    def _flats(self) -> list[tuple[dict[str, Any], Tensor]]:
        """The tensors that the optimizer updates on this rank, with their groups. Stage 3 puts each into its group
        for its own update alone.
        """
        zero = self.parallel.engine.optimizer
        if hasattr(zero, "fp32_partitioned_groups_flat"):
            groups = zero.sub_group_to_group_id
            flats = enumerate(zero.fp32_partitioned_groups_flat)
            return [(self._base.param_groups[groups[number]], flat) for number, flat in flats]
        return [(group, flat) for group in self._base.param_groups for flat in group["params"]]

    def _set_steps(self, steps: float) -> None:
        for held in self._base.state.values():
            if "step" in held:
                held["step"] = torch.full_like(held["step"], steps) if torch.is_tensor(held["step"]) else int(steps)

    def _keys(self) -> list[str]:
        """Names of the optimizer's tensors as large as a parameter."""
        for parameter, held in self._base.state.items():
            return [k for k, v in held.items() if torch.is_tensor(v) and v.shape == parameter.shape and v.ndim]
        return []

    def _steps(self) -> float | None:
        for held in self._base.state.values():
            return float(held["step"]) if "step" in held else None
        return None


def _trained(network: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, p) for name, p in network.named_parameters() if p.requires_grad]


def _whole(parameter: nn.Parameter, key: str | None) -> Tensor:
    """fp32 value of a parameter (or of one of its optimizer states), whole. Collective."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    value: Tensor = (
        safe_get_full_fp32_param(parameter) if key is None else safe_get_full_optimizer_state(parameter, key)
    )
    return value.detach().view(getattr(parameter, "ds_shape", parameter.shape))


def _put(parameter: nn.Parameter, value: Tensor, key: str | None) -> None:
    """The reverse: this rank's part of ``value``, into fp32 copies and into what the model computes with."""
    from deepspeed.utils import (
        safe_set_full_fp32_param,
        safe_set_full_optimizer_state,
        safe_set_local_fp32_param,
        safe_set_local_optimizer_state,
    )

    if not hasattr(parameter, "ds_tensor"):
        if key is not None:
            safe_set_full_optimizer_state(parameter, value, key)
            return
        safe_set_full_fp32_param(parameter, value)
        parameter.data.copy_(value)
        return
    held = parameter.ds_tensor
    # Parts are equally long, so the last one ends in padding.
    padded = torch.zeros(held.numel() * dist.get_world_size(), dtype=value.dtype, device=value.device)
    padded[: value.numel()] = value.flatten()
    part = padded.view(-1, held.numel())[dist.get_rank()]
    if key is not None:
        safe_set_local_optimizer_state(parameter, part, key)
        return
    safe_set_local_fp32_param(parameter, part)
    held.data.copy_(part.view_as(held))
    if parameter.data.numel() == value.numel():  # small ones stay gathered
        parameter.data.copy_(value.view_as(parameter.data))
