"""HTTP to one server: a kept connection that was closed costs nothing, and what acts is never sent twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from trainwright.targets.connection import NO_ANSWER, Connection

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class OnceEach:
    """Answers the first request of every connection and takes the second one without a word."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.seen: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                for number in range(2):
                    request = client.recv(65536)
                    if not request:
                        break
                    self.seen.append(request.decode().split(" ")[0])
                    if number == 0:
                        client.sendall(ANSWER)


@pytest.fixture
def server() -> Iterator[OnceEach]:
    found = OnceEach()
    yield found
    found.listener.close()


def connection(server: OnceEach) -> Connection:
    return Connection(server.url, connect_seconds=5, read_seconds=5)


def test_a_question_is_asked_again_when_the_kept_connection_was_closed(server: OnceEach) -> None:
    http = connection(server)
    assert [http.request("GET", "/").text for _ in range(3)] == ["ok"] * 3
    assert len(server.seen) > 3


def test_what_acts_is_sent_once_over_a_connection_of_its_own(server: OnceEach) -> None:
    http = connection(server)
    assert http.request("GET", "/").text == "ok"
    assert http.request("POST", "/", body=b"{}").text == "ok"
    assert server.seen == ["GET", "POST"]


def test_a_server_that_is_not_there_is_no_answer() -> None:
    with pytest.raises(NO_ANSWER):
        Connection("http://127.0.0.1:1", connect_seconds=2, read_seconds=2).request("GET", "/")
