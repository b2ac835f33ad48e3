"""Register an exported model: weights, card, spec, plan, metrics, evaluation and lineage as one version.

Takes what a run left; gives a version in the registry folder, and tells remote registries when the spec names them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trainwright.checkpoints.format import Checkpoint
from trainwright.errors import InputError, Problem
from trainwright.evaluation.results import Evaluation
from trainwright.on_disk import sha256_of
from trainwright.registry.decision import Decision
from trainwright.registry.export import Exported
from trainwright.registry.hub import push, write_token
from trainwright.registry.lineage import lineage
from trainwright.registry.mlflow_registry import register_with_mlflow
from trainwright.registry.model_card import model_card
from trainwright.registry.store import Incoming, Registry, check_aliases
from trainwright.registry.version import WEIGHTS, Version
from trainwright.runs.folder import RunFolder
from trainwright.spec.model import Register, RunSpec

#: Folder inside a version for what tells of the run, apart from the model itself.
RUN = "run"


@dataclass(frozen=True)
class Registration:
    """Where the model is registered."""

    version: Version
    aliases: tuple[str, ...]
    hub: str | None = None
    mlflow: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return {**self.version.to_dict(), "aliases": list(self.aliases), "hub": self.hub, "mlflow": self.mlflow}


def registry_of(run: RunFolder, settings: Register) -> Registry:
    """The registry that a run registers with: the spec's, else ``registry`` beside the folder of runs."""
    return Registry(Path(settings.path) if settings.path else run.root.parent.parent / "registry")


def register(
    run: RunFolder,
    spec: RunSpec,
    checkpoint: Checkpoint,
    exported: Exported,
    evaluation: Evaluation,
    decision: Decision,
) -> Registration:
    """Make a version of an exported model, or find the one that is the same export of this run and step."""
    settings = spec.register_
    if settings is None:
        instead = "name a model: register: NAME in the spec, or --name NAME"
        raise InputError([Problem(str(run.spec_file), field="register", what="is not set", instead=instead)])
    check_aliases(settings.aliases)
    registry = registry_of(run, settings)
    version = registry.of_run(settings.name, run.run_id, checkpoint.step, weights_of(exported.folder))
    if version is None:
        origin = lineage(run, spec, checkpoint)
        card = model_card(settings.name, spec, evaluation, decision, origin, adapter_only=exported.adapter_only)

        def fill(incoming: Incoming) -> None:
            incoming.copy_tree(exported.folder)
            incoming.write("README.md", card.encode())
            incoming.write(f"{RUN}/evaluation.json", _json({**evaluation.to_dict(), "gate": decision.to_dict()}))
            incoming.write(f"{RUN}/lineage.json", _json(origin))
            for file in (run.spec_file, run.plan_file, run.metrics):
                if file.is_file():
                    incoming.copy(file, f"{RUN}/{file.name}")

        version = registry.publish(settings.name, run.run_id, checkpoint.step, fill, settings.aliases)
    else:
        for alias in settings.aliases:
            registry.point(settings.name, alias, version.number, only_forward=True)
    held = registry.aliases(settings.name)
    return Registration(version, tuple(alias for alias in settings.aliases if held.get(alias) == version.number))


def weights_of(folder: Path) -> dict[str, str]:
    """Sha256 of each file of weights in an exported folder, by name. Other files may differ in order or in a date."""
    files = sorted(path for path in folder.rglob(f"*{WEIGHTS}") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}


def announce(spec: RunSpec, registration: Registration, evaluation: Evaluation) -> Registration:
    """Tell MLflow and the Hub, whichever the spec names. SystemUnreachable leaves the version registered."""
    settings = spec.register_
    if settings is None:
        return registration
    if settings.mlflow:
        made = register_with_mlflow(
            settings.mlflow, registration.version, _params(spec), evaluation.metrics, registration.aliases
        )
        registration = replace(registration, mlflow=made.uri)
    if settings.hub:
        address = push(registration.version, settings.hub, write_token(spec))
        registration = replace(registration, hub=address)
    return registration


def _params(spec: RunSpec) -> dict[str, Any]:
    """What MLflow shows beside a run: the few settings that people compare runs by."""
    assert spec.model is not None
    values = {
        "model": spec.model.path,
        "method": spec.method,
        "objective": spec.objective,
        "sequence_length": spec.sequence_length,
        "global_batch_size": spec.global_batch_size,
        "duration": str(spec.duration),
        "seed": spec.seed,
        "spec_sha256": spec.sha256,
        **{f"optimizer.{name}": value for name, value in spec.optimizer.model_dump().items()},
    }
    if spec.method == "lora":
        values |= {f"lora.{name}": value for name, value in spec.lora.model_dump().items()}
    return values


def _json(values: Any) -> bytes:
    return (json.dumps(values, indent=2, ensure_ascii=False, default=asdict) + "\n").encode()
