"""TW849: the process group backend xla without the module that provides it."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, imports_module, literal

_PROVIDERS = ("torch_xla.distributed.xla_backend", "torch_xla.distributed", "torch_xla.experimental",
              "neuronx_distributed", "torch_xla.distributed.xla_multiprocessing")  # fmt: skip


class XlaBackendNotRegistered(PythonRule):
    """torch.distributed knows xla only after torch_xla's backend module was imported."""

    id = "TW849"
    severity = "warning"
    category = "frameworks"
    summary = "the process group backend xla, without the import that registers it"
    evidence = "knowledge"
    source = "PyTorch/XLA documentation on distributed data parallel: import torch_xla.distributed.xla_backend first"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """``init_process_group("xla")`` in files that import no provider of it."""
        if any(imports_module(subject, module) for module in _PROVIDERS):
            return
        for call in calls_of(subject, "torch.distributed.init_process_group"):
            if literal(call.argument(0, "backend")) == "xla":
                yield self.hit(
                    call.span,
                    "torch.distributed has no backend xla of its own: it is registered when "
                    "torch_xla.distributed.xla_backend is imported, which nothing does here",
                    "import torch_xla.distributed.xla_backend before it (optimum-neuron's trainer sets the process "
                    "group up itself)",
                )
