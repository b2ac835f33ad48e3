"""Who asks: tokens, files that change, programs that log in, passwords and certificates, as kubectl takes them."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import InputError, SystemUnreachable
from trainwright.targets.connection import Connection
from trainwright.targets.kubernetes.client import connect
from trainwright.targets.kubernetes.credentials import Credentials, NoCredentialsError, tls_of
from trainwright.targets.kubernetes.resources import POD

_V1 = "client.authentication.k8s.io/v1"


def plugin(folder: Path, status: dict[str, Any]) -> dict[str, Any]:
    """A program that counts its calls and prints credentials."""
    text = json.dumps({"kind": "ExecCredential", "status": status})
    script = f"echo . >> {folder}/calls; cat <<'END'\n{text}\nEND"
    return {"apiVersion": _V1, "command": "sh", "args": ["-c", script]}


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().split())


def test_a_token_file_is_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    found = Credentials({"tokenFile": str(tmp_path / "token")}, None)
    assert found(False) == {"Authorization": "Bearer first"}
    (tmp_path / "token").write_text("second")
    assert found(False) == {"Authorization": "Bearer second"}
    (tmp_path / "token").unlink()
    with pytest.raises(NoCredentialsError, match="No such file"):
        found(False)


def test_a_program_is_run_once_and_again_when_its_token_is_refused(tmp_path: Path) -> None:
    found = Credentials({"exec": plugin(tmp_path, {"token": "t"})}, None)
    assert found(False) == found(False) == {"Authorization": "Bearer t"}
    assert calls(tmp_path) == 1
    assert found(True) == {"Authorization": "Bearer t"}
    assert calls(tmp_path) == 2


def test_a_program_is_run_again_before_its_token_ends(tmp_path: Path) -> None:
    status = {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}
    found = Credentials({"exec": plugin(tmp_path, status)}, None)
    found(False), found(False)
    assert calls(tmp_path) == 2


def test_a_password_is_sent_and_cannot_be_renewed() -> None:
    found = Credentials({"username": "ada", "password": "p:w"}, None)
    assert found(False) == {"Authorization": "Basic " + base64.b64encode(b"ada:p:w").decode()}
    assert found(True) is None


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"auth-provider": {"name": "gcp"}}, "auth-provider is no longer used"),
        ({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "v1alpha1"),
        ({"exec": {"apiVersion": _V1}}, "names no command"),
        ({"client-certificate": "/nowhere.crt", "client-key": "/nowhere.key"}, "No such file"),
    ],
)
def test_an_entry_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any], words: str
) -> None:
    _kubeconfig(tmp_path, monkeypatch, {"server": "https://127.0.0.1:1"}, user)
    with pytest.raises(InputError, match=words):
        connect()


def test_a_program_that_is_not_there_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = {"exec": {"apiVersion": _V1, "command": "no-such-program", "installHint": "install it so"}}
    _kubeconfig(tmp_path, monkeypatch, {"server": "http://127.0.0.1:1"}, user)
    with pytest.raises(SystemUnreachable, match="install it so"):
        connect().list(POD)


class Secure(BaseHTTPRequestHandler):
    """Says who has asked: the name in the client's certificate."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the base class names it so
        subject = dict(pair[0] for pair in (self.connection.getpeercert() or {}).get("subject", ()))  # type: ignore[attr-defined]
        data = json.dumps({"items": [{"metadata": {"name": subject.get("commonName", "nobody")}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = self.path == "/last"  # without having said so

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """An authority, a server called ``api.example`` and a client ``ada``."""
    run = lambda *words: subprocess.run(["openssl", *words], cwd=tmp_path, check=True, capture_output=True)  # noqa: E731
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    run("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca",
        "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    for name in ("api.example", "ada"):
        (tmp_path / "ext").write_text(f"subjectAltName=DNS:{name}\n")
        run("req", *curve[:-2], "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", f"{name}.crt", "-days", "2", "-extfile", "ext")  # fmt: skip
    return tmp_path


@pytest.fixture
def server(pki: Path) -> Iterator[str]:
    found = ThreadingHTTPServer(("127.0.0.1", 0), Secure)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pki / "api.example.crt", pki / "api.example.key")
    tls.load_verify_locations(pki / "ca.crt")
    tls.verify_mode = ssl.CERT_OPTIONAL
    found.socket = tls.wrap_socket(found.socket, server_side=True)
    threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
    yield f"https://127.0.0.1:{found.server_port}"
    found.shutdown()
    found.server_close()


def test_certificates_are_taken_from_files_and_from_data(
    pki: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def data(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    cluster = {"server": server, "tls-server-name": "api.example"}
    files = {"client-certificate": str(pki / "ada.crt"), "client-key": str(pki / "ada.key")}
    _kubeconfig(pki, monkeypatch, {**cluster, "certificate-authority": str(pki / "ca.crt")}, files)
    assert [one["metadata"]["name"] for one in connect().list(POD)] == ["ada"]
    inline = {"client-certificate-data": data("ada.crt"), "client-key-data": data("ada.key")}
    _kubeconfig(pki / "x", monkeypatch, {**cluster, "certificate-authority-data": data("ca.crt")}, inline)
    assert [one["metadata"]["name"] for one in connect().list(POD)] == ["ada"]
    brought = plugin(pki, {"clientCertificateData": (pki / "ada.crt").read_text(),
                           "clientKeyData": (pki / "ada.key").read_text()})  # fmt: skip
    _kubeconfig(pki / "y", monkeypatch, {**cluster, "insecure-skip-tls-verify": True}, {"exec": brought})
    assert [one["metadata"]["name"] for one in connect().list(POD)] == ["ada"]


def test_a_certificate_that_is_not_trusted_is_told_at_once(
    pki: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _kubeconfig(pki, monkeypatch, {"server": server}, {"token": "t"})
    with pytest.raises(SystemUnreachable, match="is not trusted"):
        connect().list(POD)


def test_a_connection_that_the_server_has_closed_is_made_anew(pki: Path, server: str) -> None:
    cluster = {"server": server, "certificate-authority": str(pki / "ca.crt")}
    found = Connection(server, connect_seconds=5, read_seconds=5, tls=tls_of(cluster, {}), server_name="api.example")
    assert [found.request("GET", path).status for path in ("/last", "/last", "/", "/")] == [200] * 4


def _kubeconfig(folder: Path, monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], user: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    config = {
        "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}], "current-context": "dev",
    }  # fmt: skip
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
