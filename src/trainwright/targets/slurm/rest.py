"""A Slurm asked through slurmrestd, with a token: for machines that have neither Slurm's commands nor ssh.

Answers as ``queue.Queue``. The token is in SLURM_JWT, as ``scontrol token`` prints it. slurmrestd reads no #SBATCH
lines, so ``rest_job`` turns them into its fields; it moves no files, so the run's folder must be seen from here.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from trainwright.errors import InputError, Problem, SystemUnreachable, TrainwrightError
from trainwright.targets.connection import NO_ANSWER, Connection
from trainwright.targets.slurm.queue import (
    PASSING,
    Job,
    Partition,
    integer,
    job_of_account_json,
    job_of_json,
    refused,
)
from trainwright.targets.slurm.rest_job import fields_of, is_new
from trainwright.targets.slurm.transport import Local, clean

TOKEN_VARIABLE = "SLURM_JWT"
#: Versions of its API that are known: 0.0.36 came with 20.11, 0.0.44 with 25.11.
_KNOWN = range(36, 45)
_SECONDS = 20.0  # for one answer
_LONGEST_PAUSE = 8.0
#: Its numbers for what was asked of a job that is over or not there.
_GONE = re.compile(r"Invalid job id|already completing or completed|Unable to find JobId", re.I)
#: 22.05 tells of a token that it refuses by no more than these; later releases by the status.
_REFUSED_TOKEN = re.compile(r"Unspecified error|Zero Bytes were transmitted|[Aa]uthenti|Protocol authentication")


class Rest:
    """slurmrestd at a URL. The newest version of its API that both know is used, and asked for only once."""

    def __init__(self, url: str, *, patience: float = 20.0, sleep: Callable[[float], object] = time.sleep):
        self.url = url.rstrip("/")
        # follows no redirect: the token is for this host alone
        self._http = Connection(self.url, connect_seconds=_SECONDS, read_seconds=_SECONDS)
        self.patience = patience
        self.transport = Local()
        self._sleep = sleep
        self._api: int | None = None
        self._meta: Mapping[str, Any] = {}
        self._accounting = True

    def anew(self) -> Rest:
        """See ``Queue.anew``."""
        return Rest(self.url)

    def version(self) -> tuple[int, ...]:
        """See ``Queue.version``."""
        if not self._meta:
            self._get("slurm", "ping")
        found = re.match(r"\d+(?:\.\d+)+", str(self._about().get("release") or ""))
        return tuple(int(part) for part in found[0].split(".")) if found else ()

    def submit(
        self, script: str, *, folder: str, name: str, dependency: str | None, exclude: Sequence[str],
        environment: Mapping[str, str], cwd: str | None,
    ) -> str:  # fmt: skip
        """See ``Queue.submit``. The job gets this shell's variables, as sbatch gives it."""
        try:
            text = Path(script).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise InputError([Problem(script, what=f"cannot be read: {error}", instead="render it anew")]) from None
        added = {"chdir": folder, "job-name": name, "dependency": dependency, "exclude": ",".join(exclude) or None}
        # sbatch tells the job where it was submitted; the batch script goes there
        variables = {**clean(os.environ), **environment, "SLURM_SUBMIT_DIR": cwd or folder}
        variables.pop(TOKEN_VARIABLE, None)
        api = self._version_of_api()
        job = fields_of(text, added, variables, script, new=is_new(api))
        answer = self._post("slurm", "job/submit", {"script": text, "job": job} if api < 43 else
                            {"job": {**job, "script": text}}, script)  # fmt: skip
        found = integer(answer.get("job_id"))
        if not found:
            raise SystemUnreachable(f"slurmrestd at {self.url} named no job", f"look for a job of the name {name}")
        return str(found)

    def try_out(self, script: str, *, name: str) -> str:
        """See ``Queue.try_out``. slurmrestd has no such test: whether it can be told every option is checked."""
        fields_of(script, {}, {}, name, new=is_new(self._version_of_api()))
        return "slurmrestd can be told every option; whether Slurm grants them shows when the job is queued"

    def partitions(self) -> list[Partition]:
        """See ``Queue.partitions``."""
        nodes = self._get("slurm", "nodes").get("nodes", [])
        rows = []
        for one in self._get("slurm", "partitions").get("partitions", []):
            name, up = str(one["name"]), _word(one.get("state") or (one.get("partition") or {}).get("state")) == "UP"
            limit = _limit(one.get("max_time_limit", ((one.get("maximums") or {}).get("time"))))
            kinds: dict[tuple[str, str], int] = {}
            for node in nodes:
                if name in node.get("partitions", ()):
                    kind = (str(node.get("gres") or "(null)"), _node_state(node))
                    kinds[kind] = kinds.get(kind, 0) + 1
            rows += [Partition(name, up, limit, count, gres, state) for (gres, state), count in kinds.items()] or [
                Partition(name, up, limit, 0, "(null)", "n/a")
            ]
        return rows

    def jobs(self, ids: Iterable[str]) -> dict[str, Job]:
        """See ``Queue.jobs``. One query for all jobs of the cluster when there are several to ask for."""
        wanted = {*ids}
        if not wanted:
            return {}
        found = {job.id: job for job in self._queue(wanted) if job.id in wanted}
        for id_ in sorted(wanted - found.keys()):
            job = self._account(id_)
            if job is not None:
                found[id_] = job
        return found

    def named(self, names: Iterable[str]) -> list[Job]:
        """See ``Queue.named``."""
        wanted = {*names}
        rows = self._get("slurm", "jobs").get("jobs", [])
        mine = [row for row in rows if row.get("name") in wanted and row.get("user_name") in (None, "", _user())]
        return [job for job in map(job_of_json, mine) if not job.final]

    def cancel(self, ids: Iterable[str]) -> None:
        """See ``Queue.cancel``."""
        for id_ in ids:
            self._delete(f"job/{quote(id_)}")

    def stop(self, ids: Iterable[str]) -> None:
        """See ``Queue.stop``. slurmrestd signals batch script and steps alike; srun would answer SIGTERM by killing
        its step, but hands SIGUSR1 on to the ranks, which save and leave on it too."""
        for id_ in ids:
            self._delete(f"job/{quote(id_)}?signal=USR1")

    def cluster(self) -> str:
        """See ``Queue.cluster``: slurmrestd tells it with each job and, since 24.05, with every answer."""
        self.version()
        named = self._about().get("cluster")
        rows = [] if named else self._get("slurm", "jobs").get("jobs", [])
        return str(named or next((row["cluster"] for row in rows if row.get("cluster")), "slurm"))

    def _about(self) -> Mapping[str, Any]:
        """What its answers tell of the Slurm behind it."""
        found = self._meta.get("slurm") or self._meta.get("Slurm")
        return found if isinstance(found, Mapping) else {}

    def _queue(self, wanted: set[str]) -> list[Job]:
        path = f"job/{quote(next(iter(wanted)))}" if len(wanted) == 1 else "jobs"
        return [job_of_json(row) for row in self._get("slurm", path, gone=True).get("jobs", [])]

    def _account(self, id_: str) -> Job | None:
        """A job that the controller has forgotten, by accounting; None where there is none."""
        if not self._accounting:
            return None
        try:
            rows = self._get("slurmdb", f"job/{quote(id_)}", gone=True).get("jobs", [])
        except SystemUnreachable:
            self._accounting = False
            return None
        return job_of_account_json(rows[-1]) if rows else None

    def _get(self, part: str, path: str, *, gone: bool = False) -> dict[str, Any]:
        """Ask, again while the controller is away. ``gone``: an unknown job is an empty answer."""
        end, pause = time.monotonic() + self.patience, 0.5
        while True:
            status, answer = self._call("GET", f"/{part}/v0.0.{self._version_of_api()}/{path}")
            said = _said(answer)
            if status < 300:
                return answer
            if gone and (status == 404 or _GONE.search(said)):
                return {}
            if not PASSING.search(said) or "Zero Bytes" in said or time.monotonic() + pause > end:
                raise self._wrong(status, said)
            self._sleep(pause)
            pause = min(pause * 1.7, _LONGEST_PAUSE)

    def _post(self, part: str, path: str, body: Mapping[str, Any], script: str) -> dict[str, Any]:
        """Never sent again by itself: it may have been heard before the answer was lost."""
        status, answer = self._call("POST", f"/{part}/v0.0.{self._version_of_api()}/{path}", body)
        if status < 300 and not (_errors(answer) and not answer.get("job_id")):
            return answer
        raise self._refusal(status, _said(answer), script)

    def _delete(self, path: str) -> None:
        status, answer = self._call("DELETE", f"/slurm/v0.0.{self._version_of_api()}/{path}")
        # since 23.11 a refusal stands beside each job, and the status is that of success
        status_of_each = answer.get("status")
        each = status_of_each if isinstance(status_of_each, list) else []
        told = [str(one["error"].get("string") or "") for one in each if isinstance(one.get("error"), Mapping)]
        said = "; ".join(line for line in (_said(answer), *told) if line and line != "No error")
        if (status >= 300 or said) and status != 404 and not _GONE.search(said):
            raise self._wrong(status, said)

    def _version_of_api(self) -> int:
        if self._api is None:
            status, answer = self._call("GET", "/openapi/v3")
            offered = {int(n) for path in answer.get("paths", {}) for n in re.findall(r"^/slurm/v0\.0\.(\d+)/", path)}
            if status >= 300 or not offered:
                raise self._wrong(status, _said(answer) or "it offers no version of Slurm's API")
            self._api = max(offered & {*_KNOWN} or offered)
        return self._api

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """One request: status and JSON. SystemUnreachable when there is no answer in time, or no token."""
        token = _token()
        headers = {"X-SLURM-USER-NAME": _user(), "X-SLURM-USER-TOKEN": token, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._http.request(method, path, body=data, headers=headers)
        except NO_ANSWER as error:
            host = urlsplit(self.url).netloc
            raise SystemUnreachable(
                f"slurmrestd at {host} does not answer: {error}", f"try: curl {self.url}/openapi/v3"
            ) from None
        try:
            found = json.loads(answer.content)
        except ValueError:
            found = {"errors": [{"error": answer.text[:200].strip()}]}
        if not isinstance(found, dict):
            found = {"errors": [{"error": f"an answer that is none of Slurm's: {str(found)[:100]}"}]}
        if isinstance(found.get("meta"), dict):
            self._meta = found["meta"]
        return answer.status, found

    def _wrong(self, status: int, said: str) -> SystemUnreachable:
        """Why a query failed; a token that is not taken comes first, as 22.05 does not name it."""
        again = f"on the cluster: scontrol token lifespan=86400, then here: export {TOKEN_VARIABLE}=…"
        token = f"slurmrestd refuses the token in {TOKEN_VARIABLE}"
        ended = _expiry(_token())
        if status in (401, 403, 511) or _REFUSED_TOKEN.search(said):
            if ended is not None and ended < time.time():
                when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ended))
                return SystemUnreachable(f"{token}: it expired {when}", again)
            return SystemUnreachable(f"{token} of user {_user()} (status {status}: {said})", again)
        way_out = "`scontrol ping` on the cluster shows whether the controller lives"
        return SystemUnreachable(f"slurmrestd at {self.url}: {said or f'status {status}'}", way_out)

    def _refusal(self, status: int, said: str, script: str) -> TrainwrightError:
        if status in (401, 403, 511) or _REFUSED_TOKEN.search(said) or PASSING.search(said):
            return self._wrong(status, said)
        return refused([said or f"status {status}"], script, "slurmrestd")


def _token() -> str:
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token or not token.isprintable():
        raise SystemUnreachable(
            f"there is no token for slurmrestd: {TOKEN_VARIABLE} is {'not set' if not token else 'damaged'}",
            "on the cluster: scontrol token lifespan=86400, then here: export SLURM_JWT=…",
        )
    return token


def _claims(token: str) -> dict[str, Any]:
    """What a token says of itself; empty when it cannot be read. Only for messages: slurmrestd is who checks it."""
    try:
        body = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return found if isinstance(found, dict) else {}
    except (ValueError, IndexError):
        return {}


def _expiry(token: str) -> float | None:
    value = _claims(token).get("exp")
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e11 else None


def _user() -> str:
    """Who the token is for: Slurm's own claim, else the usual name of this user."""
    claims = _claims(_token())
    named = claims.get("sun") or claims.get("username")
    return str(named) if isinstance(named, str) and named.isprintable() else getpass.getuser()


def _errors(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = answer.get("errors")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _said(answer: Mapping[str, Any]) -> str:
    """Its errors as one line, the most telling first; a held job and the like are no errors."""
    lines = []
    for one in _errors(answer):
        parts = [str(one[name]) for name in ("error", "description") if one.get(name)]
        lines.append(": ".join(dict.fromkeys(parts)))
    return "; ".join(dict.fromkeys(line for line in lines if line))


def _word(value: Any) -> str:
    return str(value[0] if isinstance(value, list) and value else value or "")


def _node_state(node: Mapping[str, Any]) -> str:
    states = node.get("state")
    flags = node.get("state_flags") or []
    words = [*(states if isinstance(states, list) else [states]), *flags]
    down = next((str(word) for word in words if re.match(r"drain|down|fail|maint|not_resp", str(word), re.I)), None)
    return (down or str(words[0])).lower()


def _limit(value: Any) -> str:
    """Minutes, as plain or optional number."""
    if isinstance(value, Mapping):
        return "infinite" if value.get("infinite") or not value.get("set") else f"{value.get('number')} min"
    return f"{value} min" if isinstance(value, int) and value >= 0 else "infinite"
