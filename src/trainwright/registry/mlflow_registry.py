"""Register a version with an MLflow server as well (extra ``mlflow``).

Takes a version, parameters and metrics; makes an MLflow run with the version's files and a model version on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.errors import MissingExtra, SystemUnreachable
from trainwright.registry.version import Version


@dataclass(frozen=True)
class MlflowVersion:
    """What MLflow calls it: ``models:/name/version``."""

    name: str
    version: str
    run_id: str

    @property
    def uri(self) -> str:
        """Address for mlflow.artifacts.download_artifacts; the downloaded folder is what from_pretrained loads."""
        return f"models:/{self.name}/{self.version}"


def register_with_mlflow(
    address: str, version: Version, params: Mapping[str, Any], metrics: Mapping[str, float], aliases: tuple[str, ...]
) -> MlflowVersion:
    """Upload to a tracking address and register. SystemUnreachable when the server does not take it."""
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError:
        raise MissingExtra("registering with MLflow", "mlflow") from None
    name = version.record.name
    try:
        client = MlflowClient(tracking_uri=address, registry_uri=address)
        run_id = _upload(client, version, params, metrics)
        if not _exists(client, name):
            client.create_registered_model(name)
        source = client.get_run(run_id).info.artifact_uri + "/model"
        tags = {"trainwright.run_id": version.record.run_id, "trainwright.version": str(version.number)}
        made = client.create_model_version(name, source, run_id=run_id, tags=tags)
        for alias in aliases:
            if alias != "latest":  # a word that MLflow keeps for itself
                client.set_registered_model_alias(name, alias, made.version)
    except (MlflowException, ConnectionError, OSError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SystemUnreachable(
            f"MLflow at {_without_credentials(address)} did not take the model: {_without_credentials(first)[:300]}",
            f"it is registered as {version.folder}; try again with `trainwright register RUN --mlflow ADDRESS`",
        ) from None
    return MlflowVersion(name, str(made.version), run_id)


def _upload(client: Any, version: Version, params: Mapping[str, Any], metrics: Mapping[str, float]) -> str:
    """An MLflow run that holds the version's files; marked failed when the upload does not end."""
    experiment = client.get_experiment_by_name("trainwright")
    experiment_id = experiment.experiment_id if experiment else client.create_experiment("trainwright")
    run_id: str = client.create_run(experiment_id, run_name=version.record.run_id).info.run_id
    try:
        for name, value in params.items():
            client.log_param(run_id, name, value)
        for name, number in metrics.items():
            client.log_metric(run_id, name, number, step=version.record.step)
        client.log_artifacts(run_id, str(version.folder), "model")
    except BaseException:
        client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id)
    return run_id


def _exists(client: Any, name: str) -> bool:
    return any(model.name == name for model in client.search_registered_models(f"name = '{name}'"))


def _without_credentials(text: str) -> str:
    """The same text with the user and password of every address left out."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)
