"""Other places that metrics go: TensorBoard, MLflow, Weights & Biases, as optional extras.

Every sink works without a network (files in the run's folder) unless the user's environment says where to send.
A sink that fails is dropped with one warning, and a slow one is not waited for: training neither ends nor stops
because a dashboard did.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainwright.errors import MissingExtra
from trainwright.runs.folder import RunFolder
from trainwright.spec.model import RunSpec
from trainwright.training.metrics import Sink

_LABELS = frozenset({"v", "t", "kind", "step", "phases", "experts"})


def open_sinks(spec: RunSpec, run: RunFolder) -> tuple[Sink, ...]:
    """The sinks that a spec names. MissingExtra when the package of one is not installed."""
    return tuple(sink for name in spec.tracking if (sink := _open(name, spec, run)) is not None)


def _open(name: str, spec: RunSpec, run: RunFolder) -> Sink | None:
    try:
        return Guarded(name, _OPENERS[name](spec, run))
    except MissingExtra:
        raise
    except Exception as error:  # noqa: BLE001 - a server that cannot be reached is no reason not to train
        _warn(name, error)
        return None


def _warn(name: str, error: Exception) -> None:
    print(f"tracking: {name} failed and is switched off: {error}", file=sys.stderr)  # noqa: T201 - a rank's log


def scalars(record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a record by name: ``train/loss``, ``eval/perplexity``, ``seconds/data``."""
    prefix = "eval" if record["kind"] == "eval" else "train"
    found = {f"{prefix}/{name}": value for name, value in record.items() if name not in _LABELS and value is not None}
    found.update({f"seconds/{name}": value for name, value in record.get("phases", {}).items()})
    experts = record.get("experts", {})
    found.update({f"experts/{name}": value for name, value in experts.items() if name != "load"})
    found.update({f"experts/load/{number}": share for number, share in enumerate(experts.get("load", ()))})
    return found


class Guarded:
    """A sink that can fail, or be slow, without anybody being hurt: it has a thread and a queue of its own.

    Records that a slow sink does not take in time are left out and counted; the first failure ends it.
    """

    def __init__(self, name: str, sink: Sink, waiting: int = 1000, patience: float = 30.0):
        self._name, self._sink, self._patience = name, sink, patience
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(waiting)
        self._failed = False
        self._left_out = 0
        self._thread = threading.Thread(target=self._serve, name=f"tracking-{name}", daemon=True)
        self._thread.start()

    def write(self, record: dict[str, Any]) -> None:
        """Queue a record; returns at once, always."""
        if self._failed:
            return
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._left_out += 1

    def close(self) -> None:
        """Send what waits and flush, for ``patience`` seconds at most."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=self._patience)
        self._thread.join(self._patience)
        if self._thread.is_alive():
            _warn(self._name, TimeoutError(f"it has not taken everything within {self._patience:g} s"))
        elif self._left_out and not self._failed:
            _warn(self._name, TimeoutError(f"it was too slow for {self._left_out} records, which it lacks"))

    def _serve(self) -> None:
        try:
            while (record := self._queue.get()) is not None:
                self._sink.write(record)
            self._sink.close()
        except Exception as error:  # noqa: BLE001 - whatever a third party's client raises, training goes on
            self._failed = True
            _warn(self._name, error)


class _TensorBoard:
    def __init__(self, spec: RunSpec, run: RunFolder):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("tracking: tensorboard", "tensorboard") from None
        self._writer = SummaryWriter(str(run.root / "tensorboard"))

    def write(self, record: dict[str, Any]) -> None:
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, record["step"], record["t"])

    def close(self) -> None:
        self._writer.close()


class _MLflow:
    """To ``MLFLOW_TRACKING_URI``, else to a file in the run's folder."""

    def __init__(self, spec: RunSpec, run: RunFolder):
        try:
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise MissingExtra("tracking: mlflow", "mlflow") from None
        self._metric = Metric
        address = os.environ.get("MLFLOW_TRACKING_URI") or _local_store(run.root / "mlflow")
        self._client = MlflowClient(tracking_uri=address)
        found = self._client.get_experiment_by_name(spec.name)
        experiment = found.experiment_id if found else self._client.create_experiment(spec.name)
        earlier = self._client.search_runs([experiment], f"tags.`trainwright.run_id` = '{run.run_id}'")
        if earlier:
            self._run = earlier[0].info.run_id
            return
        tags = {"trainwright.run_id": run.run_id, "mlflow.runName": run.run_id}
        self._run = self._client.create_run(experiment, tags=tags).info.run_id
        values = {"lr": spec.optimizer.lr, "global_batch_size": spec.global_batch_size, "method": spec.method}
        self._client.log_batch(self._run, params=[Param(name, str(value)) for name, value in values.items()])

    def write(self, record: dict[str, Any]) -> None:
        moment = int(record["t"] * 1000)
        batch = [self._metric(name, value, moment, record["step"]) for name, value in scalars(record).items()]
        self._client.log_batch(self._run, metrics=batch)

    def close(self) -> None:
        self._client.set_terminated(self._run)


def _local_store(folder: Path) -> str:
    """A database where the client can write one, else plain files (which it must be told to accept)."""
    folder.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("sqlalchemy") is not None:
        return f"sqlite:///{folder / 'mlflow.db'}"
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    return folder.as_uri()


class _WandB:
    """Offline unless a key or a mode is in the environment; `wandb sync` sends an offline run later."""

    def __init__(self, spec: RunSpec, run: RunFolder):
        try:
            import wandb
        except ImportError:
            raise MissingExtra("tracking: wandb", "wandb") from None
        mode = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "trainwright"),
            id=run.run_id.replace(".", "-"),
            name=run.run_id,
            resume="allow",
            dir=str(run.root),
            mode=mode,
            config=spec.to_dict(),
        )
        self._run.define_metric("*", step_metric="step")

    def write(self, record: dict[str, Any]) -> None:
        # Its own counter only goes up, and a resumed run goes back to the step of its checkpoint: "step" is the axis.
        self._run.log({**scalars(record), "step": record["step"]})

    def close(self) -> None:
        self._run.finish()


_OPENERS: dict[str, Callable[[RunSpec, RunFolder], Sink]] = {
    "tensorboard": _TensorBoard,
    "mlflow": _MLflow,
    "wandb": _WandB,
}
