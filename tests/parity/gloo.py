"""Gloo for processes that make many groups: all share one device.

Each group that torch makes opens a device, whose thread wakes a hundred times a second for as long as the process
lives. A hundred groups of four ranks would take all of two cores. Meshes of one shape are made once, too.
"""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

import torch.distributed.distributed_c10d as c10d
from torch.distributed import ProcessGroupGloo

from trainwright.training import mesh

#: Of one collective. A rank whose partners have failed waits no longer; torch itself waits half an hour.
TIMEOUT = timedelta(seconds=150)


def share_one_device() -> None:
    """From here on this process opens one device, and one mesh for each shape."""
    c10d._create_gloo_process_group = _create
    mesh.init_device_mesh = functools.cache(mesh.init_device_mesh)


@functools.cache
def _device() -> Any:
    return ProcessGroupGloo.create_default_device()


def _create(given: Any, _: object) -> ProcessGroupGloo:
    options = ProcessGroupGloo._Options()
    options._devices, options._timeout = [_device()], TIMEOUT
    options.global_ranks_in_group, options.group_name = given.global_ranks_in_group, given.group_id
    return ProcessGroupGloo(given.store, given.group_rank, given.group_size, options)
