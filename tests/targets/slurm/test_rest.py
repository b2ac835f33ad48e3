"""slurmrestd spoken to over real HTTP: a server on loopback that answers as those of 22.05 and 24.11 do."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import AnswerNo, InputError, SystemUnreachable
from trainwright.targets.slurm.queue import Job, job_of_account_json
from trainwright.targets.slurm.rest import Rest

Answer = tuple[int, Any]
META = {"Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"}}
JOB = {
    "job_id": 12, "name": "demo.train", "job_state": "RUNNING", "state_description": "", "state_reason": "None",
    "nodes": "n[1-2]", "exit_code": 0, "restart_cnt": 0, "submit_time": 5, "start_time": 6, "end_time": 0,
    "user_name": "ada", "cluster": "bed",
}  # fmt: skip
GONE = (500, {"errors": [{"error": "Invalid job id specified", "error_number": 2017}], "jobs": []})


def token(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps({"sun": "ada", **claims}).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


class Server:
    """Answers by path; keeps what was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Callable[[], Answer]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                server.asked.append((self.command, self.path, body))
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                found = server.answers.get(f"{self.command} {self.path}", (404, {"errors": [{"error": "not here"}]}))
                status, content = found() if callable(found) else found
                text = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = _serve

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: the test says what it expects."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"

    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _ in self.asked if path != "/openapi/v3"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SLURM_JWT", token())
    made = Server()
    made.answers["GET /openapi/v3"] = (200, {"paths": {f"/slurm/v0.0.{n}/jobs/": {} for n in (36, 37, 38)}})
    yield made
    made.http.shutdown()
    made.http.server_close()


def rest(server: Server) -> Rest:
    return Rest(server.url, patience=2.0, sleep=lambda seconds: None)


def test_many_jobs_are_one_query_and_the_forgotten_are_asked_of_accounting(server: Server) -> None:
    server.answers["GET /slurm/v0.0.38/jobs"] = (200, {"jobs": [JOB, {**JOB, "job_id": 13}, {**JOB, "job_id": 99}]})
    old = {"job_id": 7, "name": "x", "state": {"current": "COMPLETED"}, "exit_code": {"return_code": 0}}
    server.answers["GET /slurmdb/v0.0.38/job/7"] = (200, {"jobs": [old]})
    found = rest(server).jobs(["12", "13", "7"])
    assert {id_: job.state for id_, job in found.items()} == {"12": "RUNNING", "13": "RUNNING", "7": "COMPLETED"}
    assert server.paths() == ["GET /slurm/v0.0.38/jobs", "GET /slurmdb/v0.0.38/job/7"]
    assert server.headers[0]["x-slurm-user-name"] == "ada"


def test_one_job_is_asked_for_alone_and_an_unknown_one_is_missing(server: Server) -> None:
    server.answers["GET /slurm/v0.0.38/job/12"] = (200, {"jobs": [JOB]})
    server.answers["GET /slurm/v0.0.38/job/77"] = GONE
    client = rest(server)
    assert client.jobs(["12"])["12"].nodes == "n[1-2]"
    assert client.jobs(["77"]) == {}
    assert client.jobs([]) == {}


def test_a_script_is_submitted_with_its_options_and_this_shells_variables(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["POST /slurm/v0.0.38/job/submit"] = (200, {"job_id": 34, "errors": []})
    script = tmp_path / "train.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=2\ntrue\n")
    monkeypatch.setenv("FOR_THE_JOB", "a\nb")
    got = rest(server).submit(
        str(script), folder="/r", name="x.train", dependency="afterok:3", exclude=("n1",), environment={"E": "1"},
        cwd="/home",
    )  # fmt: skip
    assert got == "34"
    _, _, body = server.asked[-1]
    assert body["script"] == script.read_text()
    job = body["job"]
    assert (job["name"], job["nodes"], job["dependency"], job["exclude_nodes"]) == ("x.train", 2, "afterok:3", "n1")
    assert (job["environment"]["FOR_THE_JOB"], job["environment"]["E"]) == ("a\nb", "1")
    assert job["environment"]["SLURM_SUBMIT_DIR"] == "/home"
    assert "SLURM_JWT" not in job["environment"]


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("Invalid partition name specified", InputError, "partition"),
        ("Requested node configuration is not available", AnswerNo, "node"),
        ("Zero Bytes were transmitted or received", SystemUnreachable, "refuses the token"),
        ("Unable to contact slurm controller (connect failure)", SystemUnreachable, "controller"),
    ],
)
def test_a_refusal_is_the_error_that_fits(
    server: Server, tmp_path: Path, said: str, error: type[Exception], words: str
) -> None:
    server.answers["POST /slurm/v0.0.38/job/submit"] = (500, {"errors": [{"error_code": 2000, "error": said}]})
    (tmp_path / "x").write_text("#!/bin/bash\n")
    with pytest.raises(error, match=words):
        rest(server).submit(
            str(tmp_path / "x"), folder="/r", name="x", dependency=None, exclude=(), environment={}, cwd=None
        )
    assert [method for method, _, _ in server.asked].count("POST") == 1


@pytest.mark.parametrize("content", [None, b"#!/bin/bash\n\xff"])
def test_a_script_that_cannot_be_read_is_bad_input(server: Server, tmp_path: Path, content: bytes | None) -> None:
    script = tmp_path / "x.sbatch"
    if content is not None:
        script.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        rest(server).submit(str(script), folder="/r", name="x", dependency=None, exclude=(), environment={}, cwd=None)


@pytest.mark.parametrize(
    ("given", "answer", "words"),
    [
        (token(exp=1000), (500, {"errors": [{"error": "Unspecified error"}]}), "it expired 1970-01-01 00:16:40 UTC"),
        (token(exp=9e9), (401, b"Authentication failure"), "refuses the token in SLURM_JWT of user ada .status 401"),
        ("x", (500, {"errors": [{"error": "Unspecified error"}]}), "refuses the token"),
    ],
)
def test_a_token_that_is_not_taken_is_named(
    server: Server, monkeypatch: pytest.MonkeyPatch, given: str, answer: Answer, words: str
) -> None:
    monkeypatch.setenv("SLURM_JWT", given)
    server.answers["GET /slurm/v0.0.38/jobs"] = answer
    with pytest.raises(SystemUnreachable, match=words) as told:
        rest(server).jobs(["1", "2"])
    assert "scontrol token" in str(told.value.way_out)
    assert given not in str(told.value) or given == "x"


def test_no_token_is_said_before_anything_is_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JWT")
    with pytest.raises(SystemUnreachable, match="SLURM_JWT is not set"):
        rest(server).jobs(["1"])
    assert server.asked == []


def test_a_server_that_is_not_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", token())
    with pytest.raises(SystemUnreachable, match=r"slurmrestd at 127.0.0.1:9 does not answer: .*refused"):
        Rest("http://127.0.0.1:9").jobs(["1"])


@pytest.mark.parametrize("answer", [(200, b"<html>a proxy</html>"), (502, b"Bad gateway"), (200, []), (200, {})])
def test_something_else_at_the_address_is_told(server: Server, answer: Answer) -> None:
    server.answers["GET /openapi/v3"] = answer
    with pytest.raises(SystemUnreachable, match=server.url):
        rest(server).jobs(["1"])


def test_the_token_does_not_follow_a_redirect(server: Server) -> None:
    server.answers["GET /slurm/v0.0.38/jobs"] = (302, b"")
    with pytest.raises(SystemUnreachable):
        rest(server).jobs(["1", "2"])
    assert server.paths() == ["GET /slurm/v0.0.38/jobs"]


def test_a_controller_that_is_away_is_waited_for(server: Server) -> None:
    away = [(500, {"errors": [{"error": "Unable to contact slurm controller (connect failure)"}]})] * 3
    left: list[Answer] = [*away, (200, {"jobs": [JOB]})]
    server.answers["GET /slurm/v0.0.38/job/12"] = lambda: left.pop(0)
    assert rest(server).jobs(["12"])["12"].state == "RUNNING"


def test_stop_asks_the_ranks_to_save_and_cancel_ends_the_job(server: Server) -> None:
    server.answers["DELETE /slurm/v0.0.38/job/12?signal=USR1"] = (200, {"errors": []})
    server.answers["DELETE /slurm/v0.0.38/job/12"] = (200, {"errors": []})
    server.answers["DELETE /slurm/v0.0.38/job/77"] = GONE
    rest(server).stop(["12"])
    rest(server).cancel(["12", "77"])
    assert server.paths()[-3:] == [
        "DELETE /slurm/v0.0.38/job/12?signal=USR1", "DELETE /slurm/v0.0.38/job/12", "DELETE /slurm/v0.0.38/job/77",
    ]  # fmt: skip


def test_own_jobs_by_name(server: Server) -> None:
    rows = [JOB, {**JOB, "job_id": 13, "user_name": "bob"}, {**JOB, "job_id": 14, "job_state": "FAILED"}]
    server.answers["GET /slurm/v0.0.38/jobs"] = (200, {"jobs": rows})
    assert [job.id for job in rest(server).named(["demo.train"])] == ["12"]


def test_partitions_and_version_in_both_shapes(server: Server) -> None:
    server.answers["GET /slurm/v0.0.38/ping"] = (200, {"meta": META, "pings": []})
    server.answers["GET /slurm/v0.0.38/nodes"] = (200, {"nodes": [
        {"name": "n1", "state": "idle", "state_flags": [], "gres": "gpu:4", "partitions": ["a", "b"]},
        {"name": "n2", "state": ["IDLE", "DRAIN"], "gres": "gpu:4", "partitions": ["a"]},
    ]})  # fmt: skip
    server.answers["GET /slurm/v0.0.38/partitions"] = (200, {"partitions": [
        {"name": "a", "state": "UP", "max_time_limit": 60},
        {"name": "b", "partition": {"state": ["UP"]}, "maximums": {"time": {"set": False, "infinite": True}}},
        {"name": "c", "state": "DOWN", "max_time_limit": 60},
    ]})  # fmt: skip
    client = rest(server)
    assert client.version() == (22, 5, 8)
    rows = [(row.name, row.up, row.time_limit, row.nodes, row.gres, row.state) for row in client.partitions()]
    assert rows == [
        ("a", True, "60 min", 1, "gpu:4", "idle"), ("a", True, "60 min", 1, "gpu:4", "drain"),
        ("b", True, "infinite", 1, "gpu:4", "idle"), ("c", False, "60 min", 0, "(null)", "n/a"),
    ]  # fmt: skip


def test_accounting_of_old_and_new_releases_is_one_job() -> None:
    times = {"submission": 1, "start": 2, "end": 3}
    old = {
        "job_id": 7,
        "name": "x",
        "nodes": "n1",
        "time": times,
        "state": {"current": "TIMEOUT"},
        "exit_code": {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9, "name": "Killed"}},
    }
    new = {
        **old,
        "state": {"current": ["TIMEOUT"]},
        "exit_code": {"return_code": {"set": False, "number": 0}, "signal": {"id": {"set": True, "number": 9}}},
    }
    expected = Job("7", "x", "TIMEOUT", "", "n1", None, 9, 1.0, 2.0, 3.0)
    assert job_of_account_json(old) == expected
    assert job_of_account_json(new) == expected
    lost = {**old, "state": {"current": "FAILED"}, "exit_code": {"return_code": 0}}
    assert job_of_account_json(lost).exit_code is None
