"""Runs that are stopped and go on, on one rank in this process: what they see, what they refuse, what stays."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from training.tiny import lines, make_run, write_encoder, write_sentences, write_text
from trainwright.data.base_model import identify
from trainwright.data.run_inputs import prepare_run
from trainwright.errors import AnswerNo
from trainwright.evaluation.held_out import HeldOut
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.folder import RunFolder
from trainwright.runs.progress import silent
from trainwright.spec.load import spec_from_values
from trainwright.spec.write import spec_to_yaml
from trainwright.training import batches, trainer
from trainwright.training.signals import StopRequest
from trainwright.training.trainer import train

pytestmark = pytest.mark.usefixtures("alone")


def change(run: RunFolder, **fields: Any) -> None:
    """What `resume --set` does to the spec."""
    run.spec_file.write_text(spec_to_yaml(spec_from_values({**run.spec().to_dict(), **fields})))


class StopsAfter(StopRequest):
    """Asks to stop once so many looks have been taken."""

    def __init__(self, looks: int):
        super().__init__()
        self.looks = looks

    def __bool__(self) -> bool:
        self.looks -= 1
        if self.looks < 0:
            self.name = "SIGTERM"
        return self.looks < 0


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the sequences that steps were made of, in order."""
    found: list[int] = []
    made: Callable[..., Any] = batches.Batches.step

    def step(self: batches.Batches, number: int) -> Any:
        batch = made(self, number)
        found.extend(sample for part in batch.samples for sample in part)
        return batch

    monkeypatch.setattr(batches.Batches, "step", step)
    return found


def test_a_run_that_is_made_longer_after_a_short_last_step_skips_no_sample(
    tmp_path: Path, tiny_model: Path, seen: list[int]
) -> None:
    text = write_text(tmp_path / "rows.jsonl", rows=10)
    run = make_run(
        tmp_path / "runs" / "tiny-00000001", tiny_model, text, duration="1 epochs", layout={"micro_batch_size": 4},
        data_fields={"eval_fraction": 0.0, "packing": False},
    )  # fmt: skip
    assert train(run, 1, StopRequest()) is TrainExit.FINISHED
    assert [line["samples"] for line in lines(run, "step")] == [4, 8, 10]
    change(run, duration="2 epochs")
    assert train(run, 2, StopRequest()) is TrainExit.FINISHED
    assert [line["samples"] for line in lines(run, "step")] == [4, 8, 10, 14, 18, 20]
    assert Counter(seen) == dict.fromkeys(range(10), 2)
    manifest = json.loads((run.checkpoints / "step-00000006" / "manifest.json").read_text())
    assert manifest["samples"] == 20


def test_a_run_of_tokens_is_as_long_as_it_says_whatever_the_padding(
    tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    run = make_run(
        tmp_path / "runs" / "tiny-00000001", tiny_model, tiny_text, duration="300 tokens",
        data_fields={"packing": False},
    )  # fmt: skip
    train(run, 1, StopRequest())
    tokens = [line["tokens"] for line in lines(run, "step")]
    longest = 2 * 16  # of a step: two documents of at most 14 words and an end
    assert abs(tokens[-1] - 300) <= longest
    assert tokens[-1] < 24 * 2 * len(tokens) - 100, "there is padding, or the test proves nothing"


def test_the_best_checkpoint_stays_though_newer_ones_are_worse(
    tmp_path: Path, tiny_model: Path, tiny_text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([5.0, 4.0, 3.0, 6.0, 5.0, 4.0, 4.0])  # before the run, then after each step: step 2 is the best
    monkeypatch.setattr(trainer, "held_out", lambda *_, **__: HeldOut(next(losses), 1.0, None, 9))
    run = make_run(
        tmp_path / "runs" / "tiny-00000001", tiny_model, tiny_text, evaluate={"every": "1 steps"},
        checkpoint={"every": "1 steps", "keep": 1},
    )  # fmt: skip
    assert train(run, 1, StopsAfter(5)) is TrainExit.RESUME_ME
    dist.destroy_process_group()
    train(run, 2, StopRequest())
    assert sorted(path.name for path in run.checkpoints.glob("step-*")) == ["step-00000002", "step-00000006"]


def test_what_was_finished_is_not_written_again_under_another_spec(
    tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    run = make_run(tmp_path / "runs" / "tiny-00000001", tiny_model, tiny_text, checkpoint={"keep": 1})
    train(run, 1, StopRequest())
    before = (run.checkpoints / "step-00000006").stat().st_ino
    change(run, logging_steps=3)
    assert train(run, 2, StopRequest()) is TrainExit.FINISHED
    assert (run.checkpoints / "step-00000006").stat().st_ino == before


def begun(root: Path, model: Path, text: Path, **fields: Any) -> RunFolder:
    """A run with data.json of both inputs and a checkpoint."""
    run = make_run(root, model, text, **fields)
    prepare_run(run, silent)
    train(run, 1, StopRequest())
    dist.destroy_process_group()
    return run


def test_a_run_goes_on_with_the_data_it_began_with(tmp_path: Path, tiny_model: Path) -> None:
    text = write_text(tmp_path / "rows.jsonl")
    run = begun(tmp_path / "runs" / "tiny-00000001", tiny_model, text)
    before = json.loads(run.data.read_text())
    with text.open("a") as handle:
        handle.write(json.dumps({"text": "alpha omega"}) + "\n")
    assert prepare_run(run, silent).manifest.digest == before["digest"]
    assert json.loads(run.data.read_text()) == before


def test_a_run_whose_prepared_data_is_gone_and_whose_sources_changed_is_refused(
    tmp_path: Path, tiny_model: Path
) -> None:
    text = write_text(tmp_path / "rows.jsonl")
    run = begun(tmp_path / "runs" / "tiny-00000001", tiny_model, text)
    before, whole = json.loads(run.data.read_text()), text.read_text()
    for file in Path(before["folder"]).glob("*.tokens"):
        file.unlink()
    text.write_text(whole + json.dumps({"text": "alpha omega"}) + "\n")
    with pytest.raises(AnswerNo, match=r"the data of tiny-00000001 changed since it began \(rows.jsonl\)"):
        prepare_run(run, silent)
    assert json.loads(run.data.read_text()) == before
    text.write_text(whole)
    assert prepare_run(run, silent).manifest.digest == before["digest"]


def test_before_its_first_checkpoint_a_run_takes_the_data_as_it_is(tmp_path: Path, tiny_model: Path) -> None:
    text = write_text(tmp_path / "rows.jsonl")
    run = make_run(tmp_path / "runs" / "tiny-00000001", tiny_model, text)
    before = prepare_run(run, silent).manifest.digest
    text.write_text(text.read_text() + json.dumps({"text": "alpha omega"}) + "\n")
    assert prepare_run(run, silent).manifest.digest != before


def test_a_checkpoint_is_not_loaded_for_other_data(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = begun(tmp_path / "runs" / "tiny-00000001", tiny_model, tiny_text)
    values = json.loads((run.checkpoints / "step-00000006" / "trainer.json").read_text())
    assert values["inputs"] == {
        "data": json.loads(run.data.read_text())["digest"],
        "model": json.loads(run.data.read_text())["model"]["sha256"],
    }
    other = make_run(tmp_path / "runs" / "tiny-00000002", tiny_model, write_text(tmp_path / "other.jsonl", rows=30))
    run.data.write_text(other.data.read_text())
    with pytest.raises(AnswerNo, match="was saved by training on other data"):
        train(run, 2, StopRequest())


def test_a_base_model_that_changed_is_refused(tmp_path: Path, tiny_text: Path) -> None:
    from training.tiny import write_model

    model = write_model(tmp_path / "model")
    run = begun(tmp_path / "runs" / "tiny-00000001", model, tiny_text, method="lora", lora={"rank": 2})
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(AnswerNo, match="the base model of tiny-00000001 changed since it began"):
        prepare_run(run, silent)
    weights.write_bytes(whole)
    prepare_run(run, silent)


def test_what_training_does_not_read_is_no_part_of_the_base_model(tmp_path: Path, tiny_model: Path) -> None:
    spec = spec_from_values({"name": "t", "model": str(tiny_model), "data": {"sources": ["x"]}})
    assert spec.model is not None
    before = identify(spec.model, tiny_model, tmp_path / "hashes")
    extra = tiny_model / "notes.md"
    extra.write_text("changed")
    try:
        assert identify(spec.model, tiny_model, tmp_path / "hashes") == before
    finally:
        extra.unlink()
    assert before.revision is None
    assert before.sha256 is not None


def test_a_masked_model_has_a_loss_but_no_bits_per_byte(tmp_path: Path) -> None:
    model, text = write_encoder(tmp_path / "model", pairs=False), write_sentences(tmp_path / "rows.jsonl")
    run = make_run(tmp_path / "runs" / "tiny-00000001", model, text, objective="masked", duration="1 steps")
    train(run, 1, StopRequest())
    evaluations = lines(run, "eval")
    assert all(line["eval_loss"] > 0 for line in evaluations)
    assert [line.get("bits_per_byte") for line in evaluations] == [None] * len(evaluations)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("method", ["full", "lora"])
def test_a_stopped_run_goes_on_bit_for_bit_in_half_precision(
    tmp_path: Path, tiny_model: Path, tiny_text: Path, precision: str, method: str
) -> None:
    fields = {"precision": precision, "method": method, "duration": "8 steps", "optimizer": {"lr": 1e-2}}
    whole = make_run(tmp_path / "runs" / "tiny-00000001", tiny_model, tiny_text, **fields)
    assert train(whole, 1, StopRequest()) is TrainExit.FINISHED
    dist.destroy_process_group()
    parted = make_run(tmp_path / "runs" / "tiny-00000002", tiny_model, tiny_text, **fields)
    assert train(parted, 1, StopsAfter(5)) is TrainExit.RESUME_ME
    dist.destroy_process_group()
    stopped = lines(parted, "step")[-1]["step"]
    assert 0 < stopped < 8
    assert train(parted, 2, StopRequest()) is TrainExit.FINISHED
    names = ("step", "loss", "grad_norm", "lr", "skipped", "samples", "tokens")
    first, second = ([[line[name] for name in names] for line in lines(run, "step")] for run in (whole, parted))
    assert first == second
    scales = [json.loads((run.checkpoints / "step-00000008" / "trainer.json").read_text()) for run in (whole, parted)]
    assert scales[0]["loss_scale"] == scales[1]["loss_scale"]
    if precision == "fp16":
        assert scales[0]["loss_scale"]["good_steps"] <= 8 - lines(whole, "step")[-1]["skipped"]
