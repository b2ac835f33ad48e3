"""Metrics in other places, without a network; and training that does not care when one of them breaks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from training.tiny import make_run
from trainwright.runs.folder import RunFolder
from trainwright.spec.model import RunSpec
from trainwright.training import tracking
from trainwright.training.tracking import Guarded, _local_store, open_sinks, scalars

STEP = {"v": 1, "t": 1.5, "kind": "step", "step": 3, "loss": 2.5, "mfu": None, "phases": {"data": 0.5}, "skipped": 0}
EVAL = {"v": 1, "t": 2.5, "kind": "eval", "step": 3, "eval_loss": 2.25, "perplexity": 9.5}


def test_numbers_have_names_by_kind_and_unknown_ones_are_left_out() -> None:
    assert scalars(STEP) == {"train/loss": 2.5, "train/skipped": 0, "seconds/data": 0.5}
    assert scalars(EVAL) == {"eval/eval_loss": 2.25, "eval/perplexity": 9.5}


class Broken:
    def __init__(self) -> None:
        self.calls = 0

    def write(self, record: dict[str, Any]) -> None:
        self.calls += 1
        raise ConnectionError("no route to host")

    def close(self) -> None:
        raise AssertionError("a sink that failed is left alone")


def test_a_sink_that_fails_is_dropped_with_one_warning(capfd: pytest.CaptureFixture[str]) -> None:
    broken = Broken()
    sink = Guarded("wandb", broken)
    for _ in range(3):
        sink.write(STEP)
    sink.close()
    assert broken.calls == 1
    assert capfd.readouterr().err.count("wandb failed and is switched off: no route to host") == 1


class Stuck:
    """A dashboard that answers when it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.taken: list[dict[str, Any]] = []

    def write(self, record: dict[str, Any]) -> None:
        assert self.let.wait(60)
        self.taken.append(record)

    def close(self) -> None:
        pass


def test_nobody_waits_for_a_slow_sink_and_what_it_lacks_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    stuck = Stuck()
    sink = Guarded("mlflow", stuck, waiting=2)
    for step in range(50):  # would wait for ever if any of these waited
        sink.write({**STEP, "step": step})
    stuck.let.set()
    sink.close()
    assert 2 <= len(stuck.taken) <= 3
    assert f"too slow for {50 - len(stuck.taken)} records" in capfd.readouterr().err


def test_closing_a_sink_that_never_answers_ends(capfd: pytest.CaptureFixture[str]) -> None:
    stuck = Stuck()
    sink = Guarded("mlflow", stuck, patience=0.1)
    sink.write(STEP)
    sink.close()
    assert "mlflow failed" in capfd.readouterr().err
    stuck.let.set()


@pytest.fixture
def run(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> tuple[RunFolder, RunSpec]:
    folder = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, tracking=["tensorboard"])
    return folder, folder.spec()


def test_tensorboard_gets_every_number(run: tuple[RunFolder, RunSpec]) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder, spec = run
    (sink,) = open_sinks(spec, folder)
    sink.write(STEP)
    sink.write(EVAL)
    sink.close()
    events = accumulator.EventAccumulator(str(folder.root / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {*scalars(STEP), *scalars(EVAL)}
    assert [(e.step, e.value) for e in events.Scalars("eval/eval_loss")] == [(3, 2.25)]


def test_mlflow_without_an_address_writes_into_the_run_and_a_restart_goes_on(
    run: tuple[RunFolder, RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow.tracking")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder, spec = run
    for record in (STEP, {**STEP, "step": 4, "loss": 2.0}):
        (sink,) = open_sinks(spec.model_copy(update={"tracking": ("mlflow",)}), folder)
        sink.write(record)
        sink.close()
    client = mlflow.MlflowClient(_local_store(folder.root / "mlflow"))
    experiment = client.get_experiment_by_name("tiny")
    (found,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(found.info.run_id, "train/loss")
    assert [(metric.step, metric.value) for metric in history] == [(3, 2.5), (4, 2.0)]


def test_a_server_that_cannot_be_reached_does_not_keep_a_run_from_training(
    run: tuple[RunFolder, RunSpec], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def unreachable(spec: RunSpec, folder: RunFolder) -> None:
        raise ConnectionError("refused")

    monkeypatch.setitem(tracking._OPENERS, "wandb", unreachable)
    folder, spec = run
    assert open_sinks(spec.model_copy(update={"tracking": ("wandb",)}), folder) == ()
    assert "wandb failed and is switched off: refused" in capfd.readouterr().err
