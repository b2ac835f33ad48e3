"""TW816: FSDP is to wrap layers of another model."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts import models
from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.trainer import TrainerArguments

_SIMPLE = ("bert", "roberta", "gpt2", "opt", "bloom", "t5", "distilbert", "electra")


class WrongLayerClass(TrainerRule):
    """The class must be a layer of the model that is trained."""

    id = "TW816"
    severity = "error"
    category = "frameworks"
    summary = "the FSDP wrap policy names a layer class that the model does not have"
    evidence = "verified"
    source = (
        'accelerate/utils/dataclasses.py, set_auto_wrap_policy (1.15): "Could not find the transformer '
        'layer class to wrap in the model"; huggingface/accelerate#1943'
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Classes that belong to another family."""
        model = subject.model
        row = models.find(model.value) if model is not None else None
        rows = read_rows("layer_classes")
        family = str(row["config"].get("model_type", "")) if row else _family(model.value if model else "")
        own = rows.get(family, {}).get("layers")
        if own is None:
            return
        known = {name for other in rows.values() for name in other["layers"]}
        for stated in _stated(subject):
            for name in stated.value.replace("[", "").replace("]", "").split(","):
                clean = name.strip().strip("'\"")
                if clean in known and clean not in own:
                    layers = [layer for layer in own if "Embedding" not in layer] or own
                    yield self.hit(
                        stated,
                        f"{clean} is no layer of {model.value if model else family} ({family}): FSDP finds nothing "
                        f"to wrap "
                        f"and stops, or shards the whole model as one unit and runs out of memory",
                        f"{layers[0]}, or leave it out: the model's own layers are then used",
                    )


def _stated(subject: TrainerArguments) -> Iterator[Known[str]]:
    """Every place that names the class."""
    if subject.accelerate is not None:
        node = subject.accelerate.get("fsdp_config", "fsdp_transformer_layer_cls_to_wrap")
        for element in node.elements() or [node]:
            value = element.as_string()
            if isinstance(value, Known):
                yield value
    value = subject.text("fsdp_transformer_layer_cls_to_wrap")
    if isinstance(value, Known):
        yield value
    if subject.file is not None:
        for key in ("transformer_layer_cls_to_wrap", "fsdp_transformer_layer_cls_to_wrap"):
            node = subject.file.get("fsdp_config", key)
            for element in node.elements() or [node]:
                value = element.as_string()
                if isinstance(value, Known):
                    yield value


def _family(name: str) -> str:
    """The model family by the name's own words, for models that are in no table (``bert-base-cased``)."""
    words = name.rsplit("/", 1)[-1].lower().split("-")
    return words[0] if words[0] in _SIMPLE else ""
