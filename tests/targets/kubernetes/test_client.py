"""The client against a server on this machine that answers as an API server does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import AnswerNo, InputError, SystemUnreachable
from trainwright.targets.kubernetes import client
from trainwright.targets.kubernetes.client import HttpCluster, connect
from trainwright.targets.kubernetes.resources import POD


class Server(ThreadingHTTPServer):
    """Answers from a table: ``METHOD path`` → (code, body), or a list of them used one by one."""

    daemon_threads = True
    answers: dict[str, Any]
    seen: list[tuple[str, str, dict[str, str], bytes]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def answer(self) -> None:
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        self.server.seen.append((f"{self.command} {path}", query, dict(self.headers), self.rfile.read(length)))
        found = self.server.answers.get(f"{self.command} {path}", (404, "404 page not found"))
        code, body = found.pop(0) if isinstance(found, list) else found
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = answer  # the base class names them so

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server(("127.0.0.1", 0), Handler)
    found.answers, found.seen = {}, []
    threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.fixture
def cluster(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HttpCluster:
    found = connected(tmp_path, monkeypatch, server.server_port)
    found._pause = lambda _: None
    return found


def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int, **user: Any) -> HttpCluster:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": user or {"token": "secret"}}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
        "current-context": "dev",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return connect()


def test_objects_are_applied_strictly_under_our_own_name(server: Server, cluster: HttpCluster) -> None:
    server.answers["PATCH /api/v1/namespaces/ml/configmaps/c"] = (200, {"metadata": {"name": "c"}})
    made = cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}, dry_run=True)
    assert made == {"metadata": {"name": "c"}}
    _, query, headers, _ = server.seen[0]
    wanted = ["dryRun=All", "fieldManager=trainwright", "fieldValidation=Strict", "force=true"]
    assert sorted(query.split("&")) == wanted
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/apply-patch+yaml"


def test_lists_are_read_page_by_page_and_items_know_their_kind(server: Server, cluster: HttpCluster) -> None:
    server.answers["GET /api/v1/namespaces/ml/pods"] = [
        (200, {"metadata": {"continue": "x"}, "items": [{"metadata": {"name": "a"}}]}),
        (200, {"metadata": {}, "items": [{"metadata": {"name": "b"}}]}),
    ]
    found = cluster.list(POD, labels={"a": "b"})
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [("Pod", "a"), ("Pod", "b")]
    assert "labelSelector=a%3Db" in server.seen[0][1]
    assert "continue=x" in server.seen[1][1]


def test_an_object_that_is_not_there_is_none_but_a_namespace_that_is_not_there_is_an_error(
    server: Server, cluster: HttpCluster
) -> None:
    path = "/api/v1/namespaces/ml/pods/p"
    server.answers[f"GET {path}"] = (404, {"message": "no", "details": {"name": "p", "kind": "pods"}})
    assert cluster.get(POD, "p") is None
    server.answers[f"PATCH {path}"] = (404, {"message": "no", "details": {"name": "ml", "kind": "namespaces"}})
    with pytest.raises(InputError, match="there is no namespace ml"):
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})


def test_a_kind_is_looked_up_once_and_a_missing_one_names_its_chart(server: Server, cluster: HttpCluster) -> None:
    resources = [
        {"kind": "JobSet", "name": "jobsets", "namespaced": True},
        {"kind": "JobSet", "name": "jobsets/status"},
    ]
    server.answers["GET /apis/jobset.x-k8s.io/v1alpha2"] = (200, {"resources": resources})
    assert cluster.resource("jobset.x-k8s.io/v1alpha2", "JobSet").full_name == "jobsets.jobset.x-k8s.io"
    assert cluster.resource("jobset.x-k8s.io/v1alpha2", "JobSet").plural == "jobsets"
    assert len(server.seen) == 1
    with pytest.raises(AnswerNo, match=r"Kubeflow Trainer 2\.2\.0 is not installed"):
        cluster.resource("trainer.kubeflow.org/v1alpha1", "TrainJob")


def test_a_server_that_is_busy_is_asked_again(server: Server, cluster: HttpCluster) -> None:
    server.answers["GET /api/v1/namespaces/ml/pods"] = [(503, "starting"), (429, "slow down"), (200, {"items": []})]
    assert cluster.list(POD) == []
    assert len(server.seen) == 3


def test_an_expired_token_and_a_missing_permission_are_told_at_once(server: Server, cluster: HttpCluster) -> None:
    path = "GET /api/v1/namespaces/ml/pods"
    server.answers[path] = (401, {"message": "Unauthorized"})
    with pytest.raises(SystemUnreachable, match="missing or expired"):
        cluster.list(POD)
    forbidden = 'pods is forbidden: User "ada" cannot list resource "pods" in API group "" in the namespace "ml"'
    server.answers[path] = (403, {"message": forbidden})
    with pytest.raises(SystemUnreachable, match="ada may not list pods in namespace ml"):
        cluster.list(POD)
    assert len(server.seen) == 2


def test_a_server_that_is_not_there_is_given_up_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_PATIENCE", 0.3)
    free = Server(("127.0.0.1", 0), Handler)
    port = free.server_port
    free.server_close()
    cluster = connected(tmp_path, monkeypatch, port)
    with pytest.raises(SystemUnreachable) as caught:
        HttpCluster(cluster._http, "dev", "ml", pause=lambda _: None).list(POD)
    assert f"http://127.0.0.1:{port} of context dev does not answer" in str(caught.value)


def test_a_login_program_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "sh",
              "args": ["-c", "echo session has expired >&2; exit 1"]}  # fmt: skip
    cluster = connected(tmp_path, monkeypatch, 1, exec=plugin)
    with pytest.raises(SystemUnreachable, match="session has expired"):
        cluster.list(POD)


def test_a_pod_without_a_log_has_an_empty_one(server: Server, cluster: HttpCluster) -> None:
    path = "GET /api/v1/namespaces/ml/pods/p/log"
    server.answers[path] = (400, {"message": 'container "t" in pod "p" is waiting to start: ContainerCreating'})
    assert cluster.logs("p", "t") == b""
    server.answers[path] = (200, "2026-12-01T10:00:00Z hello\n")
    assert cluster.logs("p", "t", since="2026-12-01T09:00:00Z") == b"2026-12-01T10:00:00Z hello\n"
    assert "sinceTime=2026-12-01T09%3A00%3A00Z" in server.seen[-1][1]


def test_a_watch_tells_what_changes_and_ends_with_the_connection(server: Server, cluster: HttpCluster) -> None:
    line = json.dumps({"type": "MODIFIED", "object": {"metadata": {"name": "p"}}})
    server.answers["GET /api/v1/namespaces/ml/pods"] = (200, f"{line}\n")
    assert list(cluster.watch(POD, seconds=1)) == [("MODIFIED", {"metadata": {"name": "p"}})]
