"""The model card: valid front matter, the numbers, and nothing of the machine it was made on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.evaluation.held_out import HeldOut
from trainwright.evaluation.results import Evaluation, Point
from trainwright.evaluation.samples import Sample
from trainwright.evaluation.tasks import TaskResult
from trainwright.registry.decision import decide
from trainwright.registry.model_card import model_card
from trainwright.spec.load import spec_from_values
from trainwright.spec.model import RunSpec

hub = pytest.importorskip("huggingface_hub")

LINEAGE: dict[str, Any] = {
    "run": {"run_id": "q-0a1b2c3d", "spec_sha256": "ab" * 32, "step": 40, "samples": 160, "tokens": 40960},
    "data": {"digest": "d1", "sources": [{"path": "/home/someone/secret/text", "files": 3, "bytes": 1000}]},
    "code": {"trainwright": "0.1.0", "sha256": "cd" * 32},
    "versions": {"python": "3.11", "torch": "2.13"},
}
EVALUATION = Evaluation(
    "q-0a1b2c3d", 40, "the best", Point(0, HeldOut(2.41, 11.1, None, 9)), Point(40, HeldOut(1.74, 5.7, None, 9)),
    tasks=(TaskResult("arc|easy", "multiple_choice", 0.5, "accuracy", 10, 0.158),),
    samples=(Sample("def f():\n```\n", "  ````return````"),),
)  # fmt: skip


def spec(**changes: Any) -> RunSpec:
    values = {
        "name": "q", "model": "/home/someone/secret/smollm2", "data": {"sources": ["/home/someone/secret/text"]},
        "method": "lora", "register": "smol", **changes,
    }  # fmt: skip
    return spec_from_values(values)


def make(spec: RunSpec, **more: Any) -> str:
    decision = decide("eval_loss < baseline", EVALUATION.metrics)
    return model_card("smol", spec, EVALUATION, decision, LINEAGE, **{"adapter_only": False, **more})


def test_the_hub_library_reads_it_back() -> None:
    card = hub.ModelCard(make(spec(register={"name": "smol", "license": "Apache-2.0"}))).data
    assert (card.license, card.library_name, card.pipeline_tag) == ("apache-2.0", "transformers", "text-generation")
    assert card.tags == ["trainwright", "lora"]
    results = {(r.dataset_name, r.metric_type): r.metric_value for r in card.eval_results}
    assert results[("held-out text", "loss")] == 1.74
    assert results[("arc|easy", "accuracy")] == 0.5


def test_numbers_before_and_after_and_the_gate_are_told() -> None:
    text = make(spec())
    assert "| held-out loss | 2.4100 | 1.7400 |" in text
    assert r"| arc\|easy (accuracy, 10 rows) | – | 0.5000 ± 0.1580 |" in text
    assert r"eval\_loss \< baseline holds" in text
    assert "40 steps, 160 sequences" in text
    assert "bits per byte" not in text, "what was not measured is not told"


def test_no_path_of_the_machine_is_published() -> None:
    text = make(spec())
    assert "/home" not in text
    assert "someone" not in text
    assert "`smollm2`" in text
    assert "base_model" not in text, "a local folder is no Hub id"


def test_a_hub_base_model_is_linked_by_its_id() -> None:
    card = hub.ModelCard(make(spec(model="HuggingFaceTB/SmolLM2-135M"), adapter_only=True)).data
    assert (card.base_model, card.library_name) == ("HuggingFaceTB/SmolLM2-135M", "peft")


def test_the_license_is_the_base_models_unless_the_spec_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nlicense: mit\ntags: [a]\n---\nlicense: gpl\n")
    assert hub.ModelCard(make(spec(model=str(tmp_path)))).data.license == "mit"
    (tmp_path / "README.md").write_text("license: mit\n")
    assert hub.ModelCard(make(spec(model=str(tmp_path)))).data.license is None


def test_samples_stand_in_fences_that_they_cannot_close() -> None:
    text = make(spec())
    assert "\n````text\ndef f():\n```\n````\n" in text
    assert "\n`````text\n  ````return````\n`````" in text


def test_a_masked_model_is_loaded_with_its_own_class() -> None:
    text = make(spec(objective="masked"))
    assert "AutoModelForMaskedLM" in text
    assert hub.ModelCard(text).data.pipeline_tag == "fill-mask"
