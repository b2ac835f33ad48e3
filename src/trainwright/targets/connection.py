"""HTTP to one server by the standard library: kept connections, TLS, a proxy, credentials that may be renewed.

Takes method, path and body; gives status and bytes, whatever the status is. Raises ``OSError`` (TLS and time limits
among them) and ``http.client.HTTPException`` when no answer comes. It must not know what a path means.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

#: How a kept connection shows that the server has closed it. An answer that is late is none of these.
_CLOSED = (ConnectionError, ssl.SSLEOFError, http.client.RemoteDisconnected, http.client.CannotSendRequest)
#: What can go wrong before there is an answer.
NO_ANSWER = (OSError, http.client.HTTPException)


@dataclass(frozen=True)
class Answer:
    """One answer, read whole."""

    status: int
    content: bytes

    @property
    def text(self) -> str:
        """The content as text; bytes that are no UTF-8 are replaced."""
        return self.content.decode(errors="replace")


class Connection:
    """Requests to ``server`` (``https://host:port/prefix``).

    ``tls``, ``server_name`` and ``proxy`` (a URL, by default the environment's) are for https. ``credentials`` gives
    the headers that say who asks; it is called with True after a 401, to have them renewed, and gives None when they
    cannot be. ValueError for a server that is no http URL.
    """

    def __init__(
        self,
        server: str,
        *,
        connect_seconds: float,
        read_seconds: float,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        proxy: str | None = None,
        credentials: Callable[[bool], Mapping[str, str] | None] = lambda renew: None if renew else {},
    ):
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{server} is no URL of http or https")
        self.server = server.rstrip("/")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._tls, self._server_name = tls, server_name
        self._proxy = urlsplit((proxy or _proxy_of_environment(self._host) or "") if self._secure else "")
        self._connect_seconds, self._read_seconds = connect_seconds, read_seconds
        self._credentials = credentials
        self._own = threading.local()  # a connection a thread

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One answer. A kept connection that the server has closed meanwhile is made anew, without a word.

        A POST goes over a new one: sent again after a lost answer, it could do twice what it asks for.
        """
        answer = self._once(method, path, query, body, headers or {}, renew=False)
        if answer.status == 401 and (renewed := self._credentials(True)) is not None:
            answer = self._once(method, path, query, body, {**(headers or {}), **renewed}, renew=True)
        return answer

    @contextmanager
    def stream(
        self, path: str, *, query: Mapping[str, Any] | None = None, read_seconds: float
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Status and lines of an answer that goes on for long, on a connection of its own."""
        connection = self._open()
        try:
            connection.request("GET", self._target(path, query), headers=dict(self._credentials(False) or {}))
            _patience(connection, read_seconds)
            response = connection.getresponse()
            yield response.status, iter(response)
        finally:
            connection.close()

    def _once(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: bytes | None,
        headers: Mapping[str, str], *, renew: bool,
    ) -> Answer:  # fmt: skip
        known = {"Accept-Encoding": "gzip", **({} if renew else self._credentials(False) or {}), **headers}
        target = self._target(path, query)
        kept = getattr(self._own, "connection", None)
        if kept is not None and method == "POST":
            kept.close()
        elif kept is not None:
            with suppress(*_CLOSED):
                return self._exchange(kept, method, target, body, known)
        return self._exchange(self._open(), method, target, body, known)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> Answer:
        self._own.connection = None
        try:
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        if response.headers.get("Content-Encoding") == "gzip":
            content = zlib.decompress(content, wbits=31)
        self._own.connection = connection  # where the server closes it, the next request opens it again
        return Answer(response.status, content)

    def _open(self) -> http.client.HTTPConnection:
        through = self._proxy.hostname is not None
        host = self._proxy.hostname if through and self._proxy.hostname else self._host
        port = (self._proxy.port or 80) if through else self._port
        connection: http.client.HTTPConnection = (
            _Tls(host, port, self._connect_seconds, self._tls or ssl.create_default_context(), self._server_name)
            if self._secure
            else http.client.HTTPConnection(host, port, timeout=self._connect_seconds)
        )
        if through:
            connection.set_tunnel(self._host, self._port)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _patience(connection, self._read_seconds)
        return connection

    def _target(self, path: str, query: Mapping[str, Any] | None) -> str:
        asked = urlencode(query or {}, quote_via=quote)
        return self._prefix + path + (f"?{asked}" if asked else "")


class _Tls(http.client.HTTPSConnection):
    """HTTPS that may ask for another name in the certificate than that of the host."""

    def __init__(self, host: str, port: int, seconds: float, tls: ssl.SSLContext, name: str | None):
        super().__init__(host, port, timeout=seconds, context=tls)
        self._tls, self._name = tls, name

    def connect(self) -> None:
        """Connect, through the proxy if there is one."""
        if self._name is None:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _patience(connection: http.client.HTTPConnection, seconds: float) -> None:
    connection.sock.settimeout(seconds)


def _proxy_of_environment(host: str) -> str | None:
    """The proxy that the environment names for a host, as curl and kubectl read it."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    return None if proxy_bypass(host) else proxies.get("https") or proxies.get("all")
