"""Whole runs on one rank in this process: what is written, when it stops, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch.distributed as dist
from torch.distributed.checkpoint import FileSystemReader

from training.tiny import broken_model, lines, llama_config, make_run, write_encoder, write_model, write_sentences
from trainwright.errors import AnswerNo, InputError
from trainwright.runs.events import read_events
from trainwright.runs.exit_codes import TrainExit
from trainwright.training import trainer
from trainwright.training.guard import NonFinite
from trainwright.training.signals import StopRequest
from trainwright.training.trainer import train

pytestmark = pytest.mark.usefixtures("alone")


def test_a_run_learns_evaluates_saves_and_says_so(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, evaluate={"every": "3 steps"})
    assert train(run, 1, StopRequest()) is TrainExit.FINISHED
    steps, evaluations = lines(run, "step"), lines(run, "eval")
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    assert [line["samples"] for line in steps] == [2, 4, 6, 8, 10, 12]
    assert [line["step"] for line in evaluations] == [0, 3, 6]
    assert evaluations[-1]["eval_loss"] < evaluations[0]["eval_loss"]
    assert evaluations[0]["bits_per_byte"] > 0
    assert set(steps[0]) == {
        "v", "t", "kind", "step", "samples", "tokens", "loss", "lr", "grad_norm", "tokens_per_s", "mfu",
        "memory_bytes", "seconds", "phases", "skipped",
    }  # fmt: skip
    assert set(steps[0]["phases"]) == {"data", "compute", "optimizer", "checkpoint", "evaluate"}
    assert sorted(path.name for path in run.checkpoints.glob("step-*")) == ["step-00000004", "step-00000006"]
    assert [event["kind"] for event in read_events(run.events)][-1] == "finished"


def test_a_finished_run_started_again_does_nothing_more(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text)
    train(run, 1, StopRequest())
    before = run.metrics.read_text()
    assert train(run, 2, StopRequest()) is TrainExit.FINISHED
    assert run.metrics.read_text() == before


def test_a_request_to_stop_saves_and_asks_to_be_resumed(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run, stop = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text), StopRequest()
    stop.name = "SIGTERM"
    assert train(run, 1, stop) is TrainExit.RESUME_ME
    assert (run.checkpoints / "step-00000000" / "manifest.json").is_file()
    assert [event["signal"] for event in read_events(run.events) if "signal" in event] == ["SIGTERM"]


def test_a_loss_that_is_not_finite_stops_and_names_the_samples(tmp_path: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", broken_model(tmp_path / "model"), tiny_text, nan="stop")
    with pytest.raises(
        NonFinite, match=r"the loss of step 1 is not finite; its samples: \d+ \(.*rows.jsonl:\d+"
    ) as caught:
        train(run, 1, StopRequest())
    assert "nan: skip" in str(caught.value)


def test_steps_that_are_not_finite_can_be_skipped_and_are_counted(tmp_path: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", broken_model(tmp_path / "model"), tiny_text, nan="skip")
    assert train(run, 1, StopRequest()) is TrainExit.FINISHED
    steps = lines(run, "step")
    assert [line["skipped"] for line in steps] == [1, 2, 3, 4, 5, 6]
    assert len({line["lr"] for line in steps}) == 1, "the schedule moved although nothing was updated"
    assert steps[0]["loss"] is None


def test_training_stops_early_when_the_held_out_loss_does_not_improve(
    tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    run = make_run(
        tmp_path / "tiny-00000001", tiny_model, tiny_text, duration="40 steps", evaluate={"every": "1 steps"},
        early_stopping={"patience": 2, "min_delta": 100.0},
    )  # fmt: skip
    assert train(run, 1, StopRequest()) is TrainExit.FINISHED
    assert [line["step"] for line in lines(run, "eval")] == [0, 1, 2]
    assert (run.checkpoints / "step-00000002").is_dir()


def test_logging_every_few_steps_still_logs_the_last_one(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, duration="5 steps", logging_steps=2)
    train(run, 1, StopRequest())
    assert [line["step"] for line in lines(run, "step")] == [2, 4, 5]


def test_an_epoch_shows_every_sequence_once(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(
        tmp_path / "tiny-00000001", tiny_model, tiny_text, duration="1 epochs",
        layout={"micro_batch_size": 3, "micro_batches": 2},
    )  # fmt: skip
    train(run, 1, StopRequest())
    counts = json.loads(run.data.read_text())["train"]
    assert lines(run, "step")[-1]["samples"] == counts["sequences"]
    assert lines(run, "step")[-1]["tokens"] == counts["tokens"]


def test_adapters_alone_are_trained_and_saved(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, method="lora", lora={"rank": 2})
    train(run, 1, StopRequest())
    manifest = json.loads((run.checkpoints / "step-00000006" / "manifest.json").read_text())
    started = next(event for event in read_events(run.events) if event["kind"] == "started")
    assert 0 < started["trained"] < started["parameters"] / 2
    names = [file["path"] for file in manifest["files"]]
    assert "trainer.json" in names
    reader = FileSystemReader(run.checkpoints / "step-00000006")
    saved = [name for name in reader.read_metadata().state_dict_metadata if name.startswith("model.")]
    assert saved
    assert all("lora_" in name for name in saved)


def test_some_steps_can_be_profiled(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, duration="3 steps")
    train(run, 1, StopRequest(), range(2, 4))
    trace = json.loads((run.root / "profile" / "steps-2-3.json").read_text())
    assert any("scaled_dot_product" in str(event.get("name")) for event in trace["traceEvents"])


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_sixteen_bits_train_with_fp32_weights(tmp_path: Path, tiny_model: Path, tiny_text: Path, name: str) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, duration="8 steps", precision=name)
    train(run, 1, StopRequest())
    steps = lines(run, "step")
    assert steps[-1]["loss"] < steps[0]["loss"]


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recomputation_changes_no_loss(tmp_path: Path, tiny_model: Path, tiny_text: Path, recompute: str) -> None:
    losses = []
    for number, kind in enumerate(["none", recompute]):
        run = make_run(
            tmp_path / f"tiny-0000000{number}",
            tiny_model,
            tiny_text,
            layout={"recompute": kind},
            method="lora",
            lora={"dropout": 0.3},
        )
        train(run, 1, StopRequest())
        losses.append([line["loss"] for line in lines(run, "step")])
    assert losses[0] == losses[1]


def test_random_weights_are_a_function_of_the_seed(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    first = []
    for number, seed in enumerate([1, 1, 2]):
        run = make_run(
            tmp_path / f"tiny-0000000{number}", tiny_model, tiny_text, seed=seed, duration="1 steps",
            model={"path": str(tiny_model), "from_scratch": True},
        )  # fmt: skip
        train(run, 1, StopRequest())
        first.append(lines(run, "eval")[0]["eval_loss"])
    assert first[0] == first[1] != first[2]


def test_a_number_of_processes_that_the_layout_cannot_have_is_refused(
    tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, layout={"tp": 2})
    with pytest.raises(AnswerNo, match=r"1 rank cannot train what was planned for 2.*start 2 ranks"):
        train(run, 1, StopRequest())


def test_adapter_targets_that_fit_nothing_are_refused_with_those_that_would(
    tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    run = make_run(
        tmp_path / "tiny-00000001", tiny_model, tiny_text, method="lora", lora={"target_modules": ["qproj"]}
    )
    with pytest.raises(InputError, match=r"lora.target_modules.*down_proj.*q_proj"):
        train(run, 1, StopRequest())


def test_a_sequence_longer_than_the_learned_positions_is_refused(tmp_path: Path, tiny_text: Path) -> None:
    from transformers import GPT2Config

    config = GPT2Config(vocab_size=120, n_embd=24, n_layer=1, n_head=2, n_positions=16)
    run = make_run(tmp_path / "tiny-00000001", write_model(tmp_path / "model", config), tiny_text)
    with pytest.raises(InputError, match="24 but this model has 16 learned positions"):
        train(run, 1, StopRequest())


def test_a_model_folder_without_weights_is_refused(tmp_path: Path, tiny_text: Path) -> None:
    model = write_model(tmp_path / "model", llama_config())
    (model / "model.safetensors").unlink()
    run = make_run(tmp_path / "tiny-00000001", model, tiny_text)
    with pytest.raises(InputError, match=r"model.path: cannot be built"):
        train(run, 1, StopRequest())


@pytest.mark.parametrize("pairs", [False, True])
def test_a_masked_model_learns(tmp_path: Path, pairs: bool) -> None:
    run = make_run(
        tmp_path / "tiny-00000001", write_encoder(tmp_path / "bert", pairs), write_sentences(tmp_path / "rows.jsonl"),
        objective="masked", masked={"sentence_pairs": pairs}, duration="20 steps", data_fields={"packing": False},
        layout={"micro_batch_size": 2, "micro_batches": 2},
    )  # fmt: skip
    assert train(run, 1, StopRequest()) is TrainExit.FINISHED
    evaluations = lines(run, "eval")
    assert evaluations[-1]["eval_loss"] < evaluations[0]["eval_loss"]


@pytest.mark.slow
def test_compiled_blocks_compute_the_same_losses(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    losses = []
    for number, compiled in enumerate([False, True]):
        run = make_run(
            tmp_path / f"tiny-0000000{number}", tiny_model, tiny_text, compile=compiled, duration="3 steps"
        )
        train(run, 1, StopRequest())
        losses.append([line["loss"] for line in lines(run, "step")])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_a_plan_for_another_batch_is_refused(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, global_batch_size=8)
    with pytest.raises(AnswerNo, match=r"batch is 2 sequences .* but the spec.s is 8"):
        train(run, 1, StopRequest())


def test_offload_without_sharded_state_is_refused(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, offload={"optimizer": "cpu"})
    with pytest.raises(AnswerNo, match="offload"):
        train(run, 1, StopRequest())


@pytest.mark.parametrize(("look", "step"), [(0, 0), (1, 6)], ids=["baseline", "last"])
def test_a_request_to_stop_ends_an_evaluation_and_the_next_start_makes_it(
    tmp_path: Path, tiny_model: Path, tiny_text: Path, monkeypatch: pytest.MonkeyPatch, look: int, step: int
) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, evaluate={"batches": 1})
    answers = iter([number == look for number in range(2)])
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "_BATCHES_BETWEEN_LOOKS", 1)
        patch.setattr(trainer, "asked_to_stop", lambda stop: next(answers))
        assert train(run, 1, StopRequest()) is TrainExit.RESUME_ME
    dist.destroy_process_group()
    assert run.metrics.exists() == (step > 0)
    if step:
        assert [line["step"] for line in lines(run, "eval")] == [0]
        assert len(lines(run, "step")) == step
    assert train(run, 2, StopRequest()) is TrainExit.FINISHED
    assert [line["step"] for line in lines(run, "eval")] == [0, 6]
    assert [line["step"] for line in lines(run, "step")] == [1, 2, 3, 4, 5, 6]


def _cut_weights(model: Path) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def _garbage_weights(model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"\xff" * 5000)


def _wrong_types(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "num_attention_heads": "four"}))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (_cut_weights, "cannot be built from"),
        (_garbage_weights, "cannot be built from"),
        (_wrong_types, "config.json cannot be read"),
    ],
)
def test_a_damaged_model_folder_is_named_with_the_way_out(
    tmp_path: Path, tiny_text: Path, damage: Callable[[Path], None], named: str
) -> None:
    model = write_model(tmp_path / "model")
    run = make_run(tmp_path / "tiny-00000001", model, tiny_text)
    damage(model)
    with pytest.raises(InputError, match=named) as refused:
        train(run, 1, StopRequest())
    assert str(model) in str(refused.value)
    assert refused.value.problems[0].instead
