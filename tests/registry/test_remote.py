"""Hub and MLflow: what is sent, with which token, and what is said when they do not answer."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.errors import InputError, MissingExtra, SystemUnreachable
from trainwright.registry.hub import push, write_token
from trainwright.registry.mlflow_registry import register_with_mlflow
from trainwright.registry.store import Incoming, Registry
from trainwright.registry.version import Version
from trainwright.spec.load import spec_from_values

BASE = {"name": "q", "data": {"sources": ["/text"]}}


@pytest.fixture
def version(tmp_path: Path) -> Version:
    def fill(incoming: Incoming) -> None:
        incoming.write("config.json", b"{}")
        incoming.write("run/spec.yaml", b"name: q\n")

    return Registry(tmp_path / "registry").publish("smol", "q-00000000", 5, fill)


def test_the_token_that_writes_is_registers_own_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRITE", "w")
    monkeypatch.setenv("READ", "r")
    monkeypatch.setenv("HF_TOKEN", "h")
    model = {"path": "a/b", "token": {"env": "READ"}}
    both = {**BASE, "model": model, "register": {"name": "m", "token": {"env": "WRITE"}}}
    assert write_token(spec_from_values(both)) == "w"
    assert write_token(spec_from_values({**BASE, "model": model, "register": "m"})) == "r"
    assert write_token(spec_from_values({**BASE, "model": "a/b"})) == "h"
    monkeypatch.delenv("HF_TOKEN")
    assert write_token(spec_from_values({**BASE, "model": "a/b"})) is None


class FakeApi:
    """Stands in for HfApi and keeps what it was asked."""

    calls: list[tuple[str, Any, dict[str, Any]]] = []
    error: Exception | None = None

    def __init__(self, token: str | None):
        self.calls.append(("token", token, {}))

    def create_repo(self, repository: str, **more: Any) -> None:
        if self.error:
            raise self.error
        self.calls.append(("create_repo", repository, more))

    def upload_folder(self, **more: Any) -> Any:
        self.calls.append(("upload_folder", more["repo_id"], more))
        return SimpleNamespace(commit_url="https://hub.example/commit/1")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> type[FakeApi]:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "HfApi", FakeApi)
    monkeypatch.setattr(FakeApi, "calls", [])
    monkeypatch.setattr(FakeApi, "error", None)
    return FakeApi


def test_weights_go_to_a_private_repository_and_the_run_stays_home(api: type[FakeApi], version: Version) -> None:
    assert push(version, "me/smol", "secret") == "https://hub.example/commit/1"
    assert api.calls[0] == ("token", "secret", {})
    assert api.calls[1] == ("create_repo", "me/smol", {"private": True, "exist_ok": True})
    assert api.calls[2][2]["ignore_patterns"] == ["run/**", "manifest.json"]


def test_an_unreachable_hub_leaves_the_version_and_says_how_to_push_later(
    api: type[FakeApi], version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = pytest.importorskip("huggingface_hub.errors")
    for error in (ConnectionError("no route"), errors.OfflineModeIsEnabled("offline"), OSError("reset")):
        monkeypatch.setattr(api, "error", error)
        with pytest.raises(SystemUnreachable, match="push it later: `trainwright register RUN --hub me/smol`"):
            push(version, "me/smol", "secret")
    assert version.verify() == []


@pytest.mark.parametrize(("status", "says"), [(403, "write access as register.token"), (500, "refused the push")])
def test_refusals_name_the_status_never_the_token(
    api: type[FakeApi], version: Version, monkeypatch: pytest.MonkeyPatch, status: int, says: str
) -> None:
    errors = pytest.importorskip("huggingface_hub.errors")
    error = errors.HfHubHTTPError.__new__(errors.HfHubHTTPError)
    Exception.__init__(error, "refused")
    error.response = SimpleNamespace(status_code=status)
    monkeypatch.setattr(api, "error", error)
    with pytest.raises(SystemUnreachable, match=says) as caught:
        push(version, "me/smol", "hf_secret")
    assert "hf_secret" not in str(caught.value)


def test_a_bad_repository_name_is_an_input_error(
    api: type[FakeApi], version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = pytest.importorskip("huggingface_hub.errors")
    monkeypatch.setattr(api, "error", errors.HFValidationError("bad"))
    with pytest.raises(InputError, match="is no repository name"):
        push(version, "a/b/c", None)


def test_without_mlflow_the_extra_is_named(version: Version, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtra, match=r"trainwright\[mlflow\]"):
        register_with_mlflow("http://localhost:1", version, {}, {}, ())


def test_mlflow_gets_files_numbers_and_a_version_of_its_own(
    version: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # no server in a test
    address = (tmp_path / "mlruns").as_uri()
    params, metrics = {"method": "lora"}, {"eval_loss": 1.5}
    first = register_with_mlflow(address, version, params, metrics, ("latest", "best"))
    second = register_with_mlflow(address, version, params, metrics, ("best",))
    assert (first.uri, second.uri) == ("models:/smol/1", "models:/smol/2")
    client = MlflowClient(tracking_uri=address, registry_uri=address)
    assert str(client.get_model_version_by_alias("smol", "best").version) == "2"
    run = client.get_run(second.run_id)
    assert (run.info.status, run.data.params, run.data.metrics) == ("FINISHED", params, metrics)
    folder = client.download_artifacts(second.run_id, "model", str(tmp_path))
    assert (Path(folder) / "config.json").read_text() == "{}"


def test_an_mlflow_server_that_does_not_answer_is_unreachable(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(SystemUnreachable, match=r"MLflow at http://127\.0\.0\.1:9 did not take the model") as caught:
        register_with_mlflow("http://user:password@127.0.0.1:9", version, {}, {}, ())
    assert "password" not in str(caught.value)
