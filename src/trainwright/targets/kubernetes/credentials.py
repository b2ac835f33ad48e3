"""Who asks: the entry of a user and of a cluster in a kubeconfig, made into TLS and headers.

Takes the entries as plain dictionaries; gives an ``ssl`` context and ``Credentials``. Programs that log in (``exec``)
are run when credentials are needed, and again when the server does not take them any more.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

_VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
_EARLY = 30.0  # seconds before its end at which a token is renewed


class NoCredentialsError(Exception):
    """Credentials cannot be had: a token file or a program that logs in says why."""


class Credentials:
    """Headers for one user of a kubeconfig. ``tls`` gets the client certificate that a program may bring."""

    def __init__(self, user: Mapping[str, Any], tls: ssl.SSLContext | None):
        self._user, self._tls = user, tls
        self._token: str | None = None
        self._logged_in = False
        self._until = float("inf")

    def __call__(self, renew: bool) -> Mapping[str, str] | None:
        """The headers; with ``renew`` those of a fresh login, or None where there is nothing to renew."""
        user = self._user
        if user.get("tokenFile"):
            return _bearer(_file(str(user["tokenFile"])))  # read each time: it is replaced while it is used
        if user.get("token"):
            return None if renew else _bearer(str(user["token"]))
        if user.get("exec"):
            if renew or not self._logged_in or self._until - time.time() < _EARLY:
                self._log_in(user["exec"])
            return _bearer(self._token) if self._token else {}
        if renew:
            return None
        if user.get("username"):
            pair = f"{user['username']}:{user.get('password') or ''}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}

    def _log_in(self, plugin: Mapping[str, Any]) -> None:
        environment = {**os.environ, **{one["name"]: str(one["value"]) for one in plugin.get("env") or ()}}
        command = [str(plugin["command"]), *map(str, plugin.get("args") or ())]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, stdin=subprocess.DEVNULL, check=False
            )
        except OSError as error:
            hint = f"; {plugin['installHint']}" if plugin.get("installHint") else ""
            raise NoCredentialsError(f"{command[0]} cannot be run: {error.strerror}{hint}") from error
        if done.returncode != 0:
            raise NoCredentialsError(
                f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
            )
        try:
            status = json.loads(done.stdout)["status"]
            self._token = status.get("token")
            end = status.get("expirationTimestamp")
            self._until = datetime.fromisoformat(end).timestamp() if end else float("inf")
            certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoCredentialsError(f"{command[0]} did not print an ExecCredential") from error
        if certificate and key and self._tls is not None:
            with _written(certificate.encode()) as first, _written(key.encode()) as second:
                self._tls.load_cert_chain(first, second)
        self._logged_in = True


def tls_of(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext | None:
    """TLS of a cluster with the user's certificate; None for a server that is spoken to without.

    Raises OSError (``ssl.SSLError`` is one) or ValueError for files and data that cannot be used.
    """
    if not str(cluster.get("server")).startswith("https"):
        return None
    authority = cluster.get("certificate-authority-data")
    if authority:
        tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    else:
        tls = ssl.create_default_context(cafile=cluster.get("certificate-authority") or None)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if user.get("client-certificate-data") or user.get("client-certificate"):
        with _part(user, "client-certificate") as certificate, _part(user, "client-key") as key:
            tls.load_cert_chain(certificate or "", key)
    return tls


def problem_with(user: Mapping[str, Any]) -> str | None:
    """What keeps a user's entry from being used at all."""
    if user.get("auth-provider"):
        return "auth-provider is no longer used by Kubernetes (1.26): name a program under exec"
    plugin = user.get("exec")
    if plugin and not plugin.get("command"):
        return "exec names no command"
    if plugin and plugin.get("apiVersion") not in _VERSIONS:
        return f"exec.apiVersion is {plugin.get('apiVersion')!r}; {' and '.join(_VERSIONS)} are known"
    return None


@contextmanager
def _part(user: Mapping[str, Any], name: str) -> Iterator[str | None]:
    data = user.get(f"{name}-data")
    if data:
        with _written(base64.b64decode(data)) as path:
            yield path
    else:
        yield user.get(name)


@contextmanager
def _written(data: bytes) -> Iterator[str]:
    """Data in a file of this user's for a moment: OpenSSL reads certificates and keys from files only."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name


def _bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NoCredentialsError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
