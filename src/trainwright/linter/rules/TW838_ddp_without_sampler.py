"""TW838: DistributedDataParallel does not divide the data."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, imports_module, literal

_WRAP = ("torch.nn.parallel.DistributedDataParallel", ".DistributedDataParallel", ".fully_shard",
         "torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard")  # fmt: skip
_SHARES = ("DistributedSampler", "split_dataset_by_node", "num_shards", ".shard(", "nodesplitter", "split_by_node",
           "StatefulDistributedSampler", "world_size:", "prepare_data_loader", "batch_sampler")  # fmt: skip


class DdpWithoutSampler(PythonRule):
    """Something must give each rank its own share."""

    id = "TW838"
    severity = "warning"
    category = "frameworks"
    summary = "every rank reads the whole data set"
    evidence = "verified"
    source = (
        "PyTorch tutorial on DistributedDataParallel; torch.utils.data.distributed.DistributedSampler documentation"
    )

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """A wrapped model, a plain loader, and nothing about ranks around data."""
        if not any(calls_of(subject, *_WRAP)) or any(
            imports_module(subject, m) for m in ("accelerate", "lightning", "deepspeed")
        ):
            return
        source = subject.text.content
        if any(word in source for word in _SHARES):
            return
        for call in calls_of(subject, "torch.utils.data.DataLoader"):
            if literal(call.argument(2, "shuffle")) is True and not call.has_star():
                yield self.hit(
                    call.span,
                    "the model is trained by several ranks, but nothing gives each of them a share of this data: "
                    "every rank "
                    "reads all of it, so adding GPUs does not make an epoch shorter",
                    "sampler=DistributedSampler(dataset) instead of shuffle=True, and sampler.set_epoch(epoch)",
                )
