"""The stage after training: measure, decide, register; whatever it refuses is not registered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from registry_checks import logits, same
from trained_model import trained

from trainwright.errors import AnswerNo, InputError, SystemUnreachable
from trainwright.registry import register as registering
from trainwright.registry.finish import finish
from trainwright.registry.store import Registry
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder

torch = pytest.importorskip("torch")
Make = Callable[..., RunFolder]
LORA = {"method": "lora", "lora": {"rank": 4}, "register": "tiny-cat"}


def written(run: RunFolder) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(run.evaluation.read_text())
    return values


def registry_of(run: RunFolder) -> Registry:
    return Registry(run.root.parent.parent / "registry")


def test_the_best_checkpoint_is_measured_and_registered(make_run: Make, tmp_path: Path) -> None:
    rows = tmp_path / "colours.jsonl"
    rows.write_text(json.dumps({"question": "the cat is", "choices": ["red", "blue"], "answer": 0}) + "\n")
    evaluate = {
        "tasks": [{"name": "colours", "kind": "multiple_choice", "path": str(rows)}],
        "samples": ["the cat"], "sample_tokens": 5, "gate": "eval_loss < baseline and colours >= 0",
    }  # fmt: skip
    run = make_run({5: 2.0, 10: 2.5}, **LORA, evaluate=evaluate)
    done = finish(run)
    values = written(run)
    assert (values["step"], values["chosen"]) == (5, "held-out loss 2.0000, the lowest of 2 checkpoints")
    assert values["metrics"]["baseline"] == 3.5
    assert values["tasks"][0]["rows"] == 1
    [sample] = values["samples"]
    assert sample["prompt"] == "the cat"
    assert sample["text"] != sample["before"], "the trained model says something else"
    assert values["registered"]["aliases"] == ["latest"]
    version = registry_of(run).open("tiny-cat")
    assert done.registration is not None
    assert version == done.registration.version
    assert {file.path for file in version.record.files} >= {
        "README.md", "config.json", "model.safetensors", "adapter/adapter_model.safetensors", "run/spec.yaml",
        "run/metrics.jsonl", "run/lineage.json", "run/evaluation.json",
    }  # fmt: skip
    lineage = json.loads((version.folder / "run" / "lineage.json").read_text())
    assert lineage["run"]["spec_sha256"] == run.spec().sha256
    assert lineage["model"]["files"]["config.json"]
    assert [event["kind"] for event in read_events(run.events)][-1] == "evaluated"


def test_the_registered_folder_itself_is_what_loads(make_run: Make) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run = make_run({5: 2.0}, **LORA)
    finish(run)
    folder = registry_of(run).root / "tiny-cat" / "latest"
    assert same(
        logits(AutoModelForCausalLM.from_pretrained(folder)), logits(AutoModelForCausalLM.from_pretrained(run.export))
    )
    assert AutoTokenizer.from_pretrained(folder)("the cat")["input_ids"]


def test_a_refused_gate_registers_nothing_and_says_the_numbers(make_run: Make) -> None:
    run = make_run({5: 3.9}, **LORA, evaluate={"gate": "eval_loss < baseline"})
    with pytest.raises(AnswerNo, match=r"does not hold: baseline = 3\.5, eval_loss = 3\.9"):
        finish(run)
    values = written(run)
    assert values["gate"]["holds"] is False
    assert values["registered"] is None
    assert registry_of(run).names() == []
    assert (run.export / "config.json").is_file(), "the model is there to be looked at"


def test_a_gate_that_nothing_was_measured_for_refuses(make_run: Make) -> None:
    run = make_run({5: 2.0}, **LORA, evaluate={"gate": "eval_loss < baseline"})
    run.metrics.unlink()
    with pytest.raises(AnswerNo, match="cannot be decided: baseline, eval_loss was not measured"):
        finish(run)


def test_finishing_twice_makes_one_version(make_run: Make) -> None:
    run = make_run({5: 2.0}, **LORA)
    first, second = finish(run).registration, finish(run).registration
    assert first is not None
    assert second is not None
    assert first.version == second.version
    assert registry_of(run).numbers("tiny-cat") == [1]


def test_another_export_of_the_same_step_is_another_version(make_run: Make) -> None:
    run = make_run({5: 2.0}, **LORA)
    registered = [finish(run, dtype=dtype).registration for dtype in ("fp32", "bf16", "fp32")]
    assert [each.version.number for each in registered if each] == [1, 2, 1]
    adapter = run.spec().register_
    assert adapter is not None
    last = finish(run, settings=adapter.model_copy(update={"merge": False})).registration
    assert last is not None
    assert last.version.number == 3


def test_without_register_the_model_is_exported_and_measured_only(make_run: Make) -> None:
    run = make_run({5: 2.0})
    assert finish(run).registration is None
    assert written(run)["registered"] is None
    assert not registry_of(run).root.exists()


def test_a_damaged_best_checkpoint_is_noted_and_the_next_is_taken(make_run: Make) -> None:
    run = make_run({5: 2.0, 10: 2.5}, **LORA)
    victim = next((run.checkpoints / "step-00000005").glob("*.distcp"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    finish(run)
    values = written(run)
    assert values["step"] == 10
    assert "step-00000005" in values["notes"][0]


def test_a_remote_that_does_not_answer_leaves_the_model_registered(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> str:
        raise SystemUnreachable("the Hub cannot be reached", "push it later")

    run = make_run({5: 2.0}, **{**LORA, "register": {"name": "tiny-cat", "hub": "me/tiny-cat"}})
    monkeypatch.setattr(registering, "push", fail)
    with pytest.raises(SystemUnreachable):
        finish(run)
    assert written(run)["registered"]["version"] == 1
    monkeypatch.setattr(registering, "push", lambda *args: "https://hub.example/commit/1")
    finish(run)
    assert written(run)["registered"]["hub"] == "https://hub.example/commit/1"
    assert registry_of(run).numbers("tiny-cat") == [1], "trying again makes no second version"


def test_bad_task_rows_are_an_input_error_and_nothing_is_registered(make_run: Make, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("[]\n")
    run = make_run({5: 2.0}, **LORA, evaluate={"tasks": [{"name": "t", "kind": "exact_match", "path": str(rows)}]})
    with pytest.raises(InputError, match=r"rows\.jsonl:1"):
        finish(run)
    assert registry_of(run).names() == []


def test_without_a_checkpoint_the_answer_is_no(make_run: Make) -> None:
    run = make_run({5: 2.0})
    shutil.rmtree(run.checkpoints)
    with pytest.raises(AnswerNo, match="has no whole checkpoint"):
        finish(run)


def test_a_masked_models_samples_are_filled_in(make_run: Make) -> None:
    run = make_run({5: 2.0}, masked=True, evaluate={"samples": ["the cat<mask> on"]})
    [sample] = finish(run).evaluation.samples
    assert sample.text.startswith("the cat")
    assert sample.text.endswith(" on")


def test_the_held_out_loss_of_a_checkpoint_can_be_measured_again(make_run: Make) -> None:
    from trainwright.checkpoints.resume import at_step
    from trainwright.data.prepare import prepare
    from trainwright.data.report import record
    from trainwright.registry.measure import measure_held_out

    run = make_run({5: 2.0})
    spec = run.spec()
    prepared = prepare(spec, run.root.parent / "data", lambda what, done, total: None)
    run.data.write_text(json.dumps(record(prepared)))
    result = measure_held_out(run, spec, at_step(run.checkpoints, 5))
    assert result is not None

    network, loss, count = trained(run, spec, 5), 0.0, 0
    for number in range(len(prepared.eval)):
        sequence = prepared.eval[number]
        for document in sorted(set(sequence.document_ids.tolist())):
            ids = torch.tensor([sequence.input_ids[sequence.document_ids == document].tolist()])
            if ids.shape[1] > 1:
                with torch.no_grad():
                    out = network(input_ids=ids).logits[0, :-1].double().log_softmax(-1)
                loss -= float(out.gather(-1, ids[0, 1:, None]).sum())
                count += ids.shape[1] - 1
    assert result.eval_tokens == count
    assert result.eval_loss == pytest.approx(loss / count, rel=1e-5)
