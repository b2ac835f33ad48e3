"""A running Ray over its Jobs API: the only file that talks to it. Plain HTTP, so that no Ray is needed here.

Takes plain dictionaries and gives them. Raises ``SystemUnreachable`` for a Ray that does not answer or lets nobody
in, ``AnswerNo`` for what it refuses. Waits are bounded.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trainwright.errors import AnswerNo, InputError, Problem, SystemUnreachable
from trainwright.targets.connection import NO_ANSWER, Answer, Connection

USUAL = "http://127.0.0.1:8265"
_ADDRESS = "RAY_API_SERVER_ADDRESS"
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 60.0
_PATIENCE = 8.0


class Jobs:
    """Jobs of one Ray. ``address`` is that of its dashboard."""

    def __init__(self, address: str, pause: Callable[[float], object] = time.sleep):
        self.address = address.rstrip("/")
        self._pause = pause
        try:
            self._http = Connection(
                self.address, connect_seconds=_CONNECT_SECONDS, read_seconds=_READ_SECONDS, credentials=_token
            )
        except ValueError as error:
            problem = Problem(address, field="ray.address", what=f"cannot be used: {error}", instead=USUAL)
            raise InputError([problem]) from error

    def version(self) -> str:
        """Ray's version, such as ``2.60.0``."""
        return str(self._json("GET", "/api/version").get("ray_version", ""))

    def submit(self, request: Mapping[str, Any], files: Mapping[str, str]) -> bool:
        """Start a job in a folder with these files; False when there is one of that ``submission_id`` already."""
        package = _zipped(files)
        name = f"_ray_pkg_{hashlib.sha256(package).hexdigest()[:16]}.zip"
        place = f"/api/packages/gcs/{name}"
        if self._send("GET", place).status != 200:
            self._accepted(self._send("PUT", place, package))
        environment = {**request.get("runtime_env", {}), "working_dir": f"gcs://{name}"}
        body = json.dumps({**request, "runtime_env": environment}).encode()
        answer = self._send("POST", "/api/jobs/", body)
        if answer.status != 200 and "already exists" in answer.text:
            return False
        self._accepted(answer)
        return True

    def job(self, id_: str) -> dict[str, Any] | None:
        """One job, or None."""
        answer = self._send("GET", f"/api/jobs/{quote(id_, safe='')}")
        return None if answer.status == 404 else self._value(answer)

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs that were submitted by this interface."""
        found: Any = json.loads(self._accepted(self._send("GET", "/api/jobs/")).text)
        return [one for one in found if isinstance(one, dict) and one.get("submission_id")]

    def log(self, id_: str) -> str:
        """What the driver and its workers have printed; empty for a job that is not there."""
        answer = self._send("GET", f"/api/jobs/{quote(id_, safe='')}/logs")
        return str(self._value(answer).get("logs") or "") if answer.status == 200 else ""

    def stop(self, id_: str) -> None:
        """Ask a job to end."""
        answer = self._send("POST", f"/api/jobs/{quote(id_, safe='')}/stop")
        if answer.status != 404:
            self._accepted(answer)

    def nodes(self) -> list[dict[str, float]]:
        """Resources of each live node."""
        value = self._json("GET", "/api/v0/nodes?detail=true&limit=10000")
        rows = ((value.get("data") or {}).get("result") or {}).get("result") or []
        return [dict(row.get("resources_total") or {}) for row in rows if row.get("state") == "ALIVE"]

    def _json(self, method: str, path: str) -> dict[str, Any]:
        return self._value(self._send(method, path))

    def _value(self, answer: Answer) -> dict[str, Any]:
        try:
            value: Any = json.loads(self._accepted(answer).text)
        except ValueError as error:
            what = f"{self.address} does not answer as Ray's dashboard does"
            raise SystemUnreachable(what, "name the dashboard's address as ray.address in the site") from error
        return value if isinstance(value, dict) else {}

    def _accepted(self, answer: Answer) -> Answer:
        if answer.status in (401, 403):
            what = f"Ray at {self.address} lets nobody in without its token ({answer.status})"
            raise SystemUnreachable(what, "set RAY_AUTH_TOKEN, or put the token into ~/.ray/auth_token")
        if answer.status >= 400:
            said = next((line for line in reversed(answer.text.splitlines()) if line.strip()), "").strip()
            raise AnswerNo(f"Ray at {self.address} refuses: {said or answer.status}", "see the dashboard's own log")
        return answer

    def _send(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """One answer; a Ray that is being restarted is waited for."""
        end, delay = time.monotonic() + _PATIENCE, 0.3
        headers = {"Content-Type": "application/json"} if body is not None and method == "POST" else {}
        while True:
            try:
                return self._http.request(method, path, body=body, headers=headers)
            except NO_ANSWER as error:
                if time.monotonic() + delay >= end:
                    what = f"Ray at {self.address} does not answer: {error or type(error).__name__}"
                    way_out = "start it, forward its port, or name its dashboard as ray.address in the site"
                    raise SystemUnreachable(what, way_out) from None
            self._pause(delay)
            delay *= 1.7


def address_of(given: str | None) -> str:
    """The address that is meant: the site's, the environment's, this machine's."""
    return given or os.environ.get(_ADDRESS) or USUAL


def _token(renew: bool) -> dict[str, str] | None:
    """Ray's own token, where it asks for one: from the places where Ray's tools look for it."""
    if renew:
        return None
    token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    for path in (os.environ.get("RAY_AUTH_TOKEN_PATH"), Path.home() / ".ray" / "auth_token"):
        if not token and path and Path(path).is_file():
            token = Path(path).read_text().strip()
    return {"Authorization": f"Bearer {token}"} if token else {}


def _zipped(files: Mapping[str, str]) -> bytes:
    """Files in an archive whose bytes depend on nothing else."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), files[name])
    return data.getvalue()
