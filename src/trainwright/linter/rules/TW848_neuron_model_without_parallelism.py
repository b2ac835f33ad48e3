"""TW848: tensor parallelism for a model that optimum-neuron cannot split."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from trainwright.facts.data import read_rows
from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import Call, calls, calls_of, imports_module, literal

_ARGUMENTS = ("optimum.neuron.NeuronTrainingArguments", "optimum.neuron.NeuronSFTConfig",
              "optimum.neuron.NeuronORPOConfig", "optimum.neuron.distributed.lazy_load_for_parallelism")  # fmt: skip
_DEGREES = ("tensor_parallel_size", "pipeline_parallel_size")


class NeuronModelWithoutParallelism(PythonRule):
    """Only models with an implementation of their own are split."""

    id = "TW848"
    severity = "warning"
    category = "frameworks"
    summary = "optimum-neuron cannot split this model over NeuronCores"
    evidence = "verified"
    source = (
        "huggingface/optimum-neuron v0.4.5: optimum/neuron/models/training/auto_models.py has llama, granite and "
        "qwen3 (facts/neuron_models.json)"
    )
    since = {"optimum-neuron": "0.3"}

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """A degree above 1 in the arguments, and a model of another family in the same file."""
        if not imports_module(subject, "optimum.neuron"):
            return
        for call in calls_of(subject, *_ARGUMENTS):
            for name in _DEGREES:
                value = call.keyword(name)
                degree = literal(value)
                family = _family(subject)
                if value is None or not isinstance(degree, int) or degree < 2 or family is None:
                    continue
                known = [key for key in read_rows("neuron_models") if key != "others"]
                yield self.hit(
                    subject.span(value),
                    f"{name}={degree}, but optimum-neuron splits only {', '.join(known)} since 0.3, and this trains "
                    f"{family}: it stops at start, or every core holds the whole model",
                    f"{name}=1 (data parallelism), or a model of those families",
                )
                return


def _family(document: PythonDocument) -> str | None:
    """The family of the model that the file loads, when it is one that cannot be split; None otherwise."""
    others = sorted(read_rows("neuron_models")["others"]["names"], key=len, reverse=True)
    for call in calls(document):
        if not call.name.endswith(".from_pretrained"):
            continue
        for name in _names(call):
            word = re.sub(r"[^a-z0-9]", "", name.lower())
            found = next((family for family in others if word.startswith(family)), None)
            if found is not None:
                return str(found)
    return None


def _names(call: Call) -> Iterator[str]:
    """What says which model it is: the class, unless it is a tokenizer's, and the name that is loaded."""
    owner = call.name.split(".")[-2] if call.name.count(".") else ""
    if owner.startswith("Auto") or "Tokenizer" in owner or "Processor" in owner or "Config" in owner:
        owner = ""
    if owner:
        yield owner
    first = call.node.args[0] if call.node.args else None
    text = literal(first) if isinstance(first, ast.Constant) else None
    if isinstance(text, str):
        yield text.rsplit("/", 1)[-1]
