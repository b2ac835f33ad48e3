"""TW845: modules moved between optimum-neuron 0.2 and 0.4."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, nodes


class OptimumNeuronMoved(PythonRule):
    """``optimum.neuron.distributed`` ended with 0.2."""

    id = "TW845"
    severity = "warning"
    category = "frameworks"
    summary = "optimum-neuron code for a version that is gone"
    evidence = "verified"
    source = (
        "huggingface/optimum-neuron tags v0.2.0 and v0.3.0 (optimum/neuron/distributed removed); v0.4.5 "
        "optimum/neuron/trainers/transformers.py (tokenizer is only read with processing_class)"
    )

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """The old import, and the argument without effect."""
        if project.versions.at_least("optimum-neuron", "0.3") is False:
            return
        sure = project.versions.at_least("optimum-neuron", "0.3")
        for node in nodes(subject):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("optimum.neuron.distributed"):
                yield self.hit(
                    subject.span(node),
                    "optimum.neuron.distributed exists up to optimum-neuron 0.2 only: newer versions raise "
                    "ModuleNotFoundError",
                    "from optimum.neuron.models.training import NeuronModelForCausalLM (and trn_config of the "
                    "arguments)",
                    severity="error" if sure else None,
                )
        for call in calls_of(subject, "optimum.neuron.NeuronTrainer", "optimum.neuron.NeuronSFTTrainer"):
            value = call.keyword("tokenizer")
            if value is not None and call.keyword("processing_class") is None:
                yield self.hit(
                    subject.span(value),
                    "tokenizer is accepted and dropped by optimum-neuron 0.4: checkpoints have no tokenizer",
                    "processing_class=tokenizer",
                )
