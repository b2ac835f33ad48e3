"""What really crosses between ranks in a step, and what a rank really holds after one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from parity.cases import Case, Job, job
from trainwright.training.agreement import Agreement

#: Operations of torch.distributed and of its functional form → (name in a plan, which argument is the payload; -1:
#: the result).
_KINDS = {
    "c10d::allreduce_": ("all_reduce", 0),
    "c10d::_allgather_base_": ("all_gather", 0),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", 1),
    "c10d::alltoall_base_": ("all_to_all", 1),
    "c10d::send": ("send_recv", 0),
    "c10d::recv_": ("send_recv", 0),
    "c10d::broadcast_": ("broadcast", 0),
    "_c10d_functional::all_reduce": ("all_reduce", 0),
    "_c10d_functional::reduce_scatter_tensor": ("reduce_scatter", 0),
    "_c10d_functional::all_gather_into_tensor": ("all_gather", -1),
}
_NOT_SENT = {"_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd"}


class Tap(TorchDispatchMode):
    """Counts what collectives carry while it is on: (kind, ranks of the group) → [bytes of each call].

    Payloads as plans state them: the tensor that is reduced, gathered or scattered whole, what a rank has before an
    all-to-all, one message.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name.partition("::")[0] not in ("c10d", "_c10d_functional") or name in _NOT_SENT:
            return out
        kind, place = _KINDS[name]
        payload = out if place < 0 else args[place]
        size = sum(t.numel() * t.element_size() for t in tree_leaves(payload) if isinstance(t, Tensor))
        group = dist.get_process_group_ranks(_group(args))
        if len(group) > 1:
            self.seen[kind, tuple(group)].append(size)
        return out


def _group(arguments: tuple[Any, ...]) -> dist.ProcessGroup:
    for one in arguments:
        if isinstance(one, torch.ScriptObject):
            return dist.ProcessGroup.unbox(one)
    name = next(one for one in reversed(arguments) if isinstance(one, str))
    return dist.distributed_c10d._resolve_process_group(name)


def step(case: Case) -> dict[str, Any]:
    """The third step: its collectives, and bytes of weights, gradients and optimizer state. Collective.

    In the second one DDP still tells all ranks how it has sorted its buckets.
    """
    made = job(case, lambda trained, lr: torch.optim.AdamW(trained, lr=lr, foreach=False))
    agreement = Agreement(made.data.counts)
    tap = Tap()
    held: dict[str, int] = {}
    for batch in made.batches:
        agreement.propose(batch, stop=False, save=False)
        agreed = agreement.result()
        tap.seen.clear()
        with tap:
            made.stepper.gradients(batch.step, batch.micro_batches, agreed.valid_tokens, batch.rows)
        held = _held(made)
        made.stepper.update(case.lr)
        held["optimizer"] = _bytes(_states(made))
        if batch.step == 2:
            break
    made.batches.close()
    assert batch.step == 2
    return {**held, "seen": dict(tap.seen), "stage": made.mesh.get_local_rank("pp")}


def _held(made: Job) -> dict[str, int]:
    parameters = list(made.model.parameters())
    return {"weights": _bytes(parameters), "gradients": _bytes([p.grad for p in parameters if p.grad is not None])}


def _states(made: Job) -> list[Tensor]:
    return [
        value
        for state in made.stepper.optimizer.state.values()
        for name, value in state.items()
        if name != "step" and isinstance(value, Tensor)
    ]


def _bytes(tensors: list[Tensor]) -> int:
    local = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
    return sum(t.numel() * t.element_size() for t in local)
