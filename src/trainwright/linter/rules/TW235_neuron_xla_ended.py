"""TW235: training through PyTorch/XLA on Neuron has ended."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, imports_module, literal


class NeuronXlaEnded(PythonRule):
    """Newer Neuron releases train with native PyTorch."""

    id = "TW235"
    severity = "note"
    category = "accelerators"
    summary = "training through PyTorch/XLA, which Neuron no longer supports"
    evidence = "verified"
    source = (
        "aws-neuron-sdk announcements: no training with PyTorch/XLA from 2.30 on, no pytorch-training-neuronx images "
        "from 2.31 on, archived with 2.32; optimum-neuron 0.4 pins SDK 2.26.1 and torch 2.8"
    )
    since = {"neuron": "2.30"}

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Programs that train on the XLA backend of Neuron."""
        if not any(imports_module(subject, name) for name in ("torch_neuronx", "optimum.neuron", "torch_xla")):
            return
        trains = list(calls_of(subject, "optimum.neuron.NeuronTrainer", "optimum.neuron.NeuronSFTTrainer"))
        if imports_module(subject, "torch_neuronx"):
            trains += [
                call
                for call in calls_of(subject, "torch.distributed.init_process_group")
                if literal(call.argument(0, "backend")) == "xla"
            ]
        if trains:
            first = min(trains, key=lambda call: (call.node.lineno, call.node.col_offset))
            sure = project.versions.at_least("neuron", "2.30")
            yield self.hit(
                first.span,
                "this trains through PyTorch/XLA, which Neuron supports up to SDK 2.29 only: newer releases and "
                "images cannot run it",
                "an image and driver of SDK 2.29 or older with PyTorch 2.9 at most, or a port to native PyTorch on "
                "Neuron",
                severity="warning" if sure else None,
            )
