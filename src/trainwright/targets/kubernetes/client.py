"""The cluster over HTTP: the only file that talks to an API server.

Requests and answers are plain dictionaries, so that any kind and any field of any version passes through as it is.
Waits are bounded: a server that never answered is given up soon, one that has answered before is waited for as long
as a restart takes. No client library: importing one took longer than all the requests of a submit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from trainwright.errors import InputError, Problem, SystemUnreachable, TrainwrightError
from trainwright.targets.connection import NO_ANSWER, Answer, Connection
from trainwright.targets.kubernetes.cluster import Object, Objects
from trainwright.targets.kubernetes.credentials import Credentials, NoCredentialsError, problem_with, tls_of
from trainwright.targets.kubernetes.kubeconfig import read_kubeconfig
from trainwright.targets.kubernetes.refusal import Asked, missing_kind, refusal
from trainwright.targets.kubernetes.resources import Resource, known

FIELD_MANAGER = "trainwright"
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
FIRST_PATIENCE = 8.0  # for a server that has never answered
PATIENCE_ONCE_SEEN = 120.0  # a restarted API server needs its time
_PAGE = 500
_LOG_BYTES = 8 * 1024 * 1024  # of one request; the next one goes on where it ended
_BUSY = (429, 502, 503, 504)
_APPLY = "application/apply-patch+yaml"


class HttpCluster:
    """A ``Cluster`` behind a connection to its API server."""

    def __init__(self, http: Connection, context: str, namespace: str, pause: Callable[[float], object] = time.sleep):
        self.context, self.namespace = context, namespace
        self._http = http
        self._pause = pause
        self._served: dict[str, Objects] = {}
        self.patience = FIRST_PATIENCE

    def resource(self, api_version: str, kind: str) -> Resource:
        """See ``Cluster.resource``; a group is asked for once."""
        found = known(api_version, kind)
        if found is not None:
            return found
        group, _, version = api_version.rpartition("/")
        if api_version not in self._served:
            asked = Asked(self.context, "get", api_version, kind, api_version)
            path = f"/apis/{api_version}" if group else f"/api/{version}"
            answer = self._json("GET", path, asked)
            self._served[api_version] = (answer or {}).get("resources") or []
        for one in self._served[api_version]:
            if one.get("kind") == kind and "/" not in str(one.get("name")):
                return Resource(group, version, kind, str(one["name"]), bool(one.get("namespaced")))
        raise missing_kind(api_version, kind, self.context)

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """See ``Cluster.get``."""
        space = self._space(resource, namespace)
        asked = self._asked("get", resource, space, name)
        response = self._send("GET", resource.path(space, name))
        if response.status == 404 and _is_absent(response, resource, name):
            return None
        return self._read(response, asked)

    def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | str = "",
        fields: str = "",
        namespace: str | None = None,
        everywhere: bool = False,
    ) -> Objects:
        """See ``Cluster.list``; fetched in pages."""
        space = None if everywhere else self._space(resource, namespace)
        asked = self._asked("list", resource, space or "")
        query: dict[str, Any] = {"limit": _PAGE, "labelSelector": _selector(labels), "fieldSelector": fields}
        found: Objects = []
        while True:
            page = self._json("GET", resource.path(space), asked, query=query) or {}
            items: Objects = page.get("items") or []
            for item in items:  # lists leave these out of every item
                item.setdefault("kind", resource.kind)
                item.setdefault("apiVersion", resource.api_version)
            found += items
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return found
            query["continue"] = more

    def apply(self, object_: Object, *, dry_run: bool = False) -> Object:
        """See ``Cluster.apply``."""
        resource = self.resource(str(object_["apiVersion"]), str(object_["kind"]))
        about = object_["metadata"]
        space, name = self._space(resource, about.get("namespace")), str(about["name"])
        asked = Asked(
            self.context, "patch", resource.full_name, resource.kind, resource.api_version, name, space or ""
        )
        # force: what an earlier version of the same run wrote, or a controller set for it, must not end in a conflict
        query = {"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        body = json.dumps(object_).encode()
        made = self._json("PATCH", resource.path(space, name), asked, query=query, body=body, type_=_APPLY)
        return made or {}

    def create(self, object_: Object) -> Object:
        """See ``Cluster.create``."""
        resource = self.resource(str(object_["apiVersion"]), str(object_["kind"]))
        about = object_.get("metadata") or {}
        space = self._space(resource, about.get("namespace"))
        asked = self._asked("create", resource, space, str(about.get("name", "")))
        body = json.dumps(object_).encode()
        return self._json("POST", resource.path(space), asked, body=body, type_="application/json") or {}

    def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, grace_seconds: int | None = None
    ) -> bool:
        """See ``Cluster.delete``. Background propagation: the object goes at once, what belongs to it follows."""
        space = self._space(resource, namespace)
        asked = self._asked("delete", resource, space, name)
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        body = json.dumps(options).encode()
        response = self._send("DELETE", resource.path(space, name), body=body, type_="application/json")
        if response.status == 404:
            return False
        self._read(response, asked)
        return True

    def watch(
        self, resource: Resource, *, labels: Mapping[str, str] | str = "", seconds: int = 30
    ) -> Iterator[tuple[str, Object]]:
        """See ``Cluster.watch``. Ends quietly when the connection is lost: whoever watches looks again anyway."""
        space = self._space(resource, None)
        query = {"watch": "true", "timeoutSeconds": seconds, "labelSelector": _selector(labels)}
        asked = self._asked("watch", resource, space)
        try:
            with self._http.stream(resource.path(space), query=_given(query), read_seconds=seconds + 10.0) as (
                status,
                lines,
            ):
                if status >= 400:
                    self._read(Answer(status, b"".join(lines)), asked)
                for line in lines:
                    event = _parsed(line.decode(errors="replace"))
                    if isinstance(event, dict) and event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
                        yield str(event["type"]), event["object"]
        except NO_ANSWER:
            return

    def logs(self, pod: str, container: str | None = None, *, since: str | None = None) -> bytes:
        """See ``Cluster.logs``. A node that does not answer has no log; nobody waits for it."""
        query = {
            "container": container, "timestamps": "true", "sinceTime": since, "limitBytes": _LOG_BYTES,
        }  # fmt: skip
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log"
        response = self._send("GET", path, query=query, busy=())
        if response.status in (401, 403):
            self._read(response, Asked(self.context, "get", "pods/log", "Pod", "v1", pod, self.namespace))
        return bytes(response.content) if response.status == 200 else b""

    def _asked(self, verb: str, resource: Resource, space: str, name: str = "") -> Asked:
        return Asked(self.context, verb, resource.full_name, resource.kind, resource.api_version, name, space)

    def _space(self, resource: Resource, namespace: str | None) -> str:
        return (namespace or self.namespace) if resource.namespaced else ""

    def _json(
        self,
        method: str,
        path: str,
        asked: Asked,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        type_: str = "",
    ) -> Object | None:
        return self._read(self._send(method, path, query=query, body=body, type_=type_), asked)

    def _read(self, response: Answer, asked: Asked) -> Object | None:
        if response.status >= 400:
            raise refusal(response.status, _parsed(response.text), asked)
        value = _parsed(response.text)
        return value if isinstance(value, dict) else None

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        type_: str = "",
        busy: tuple[int, ...] = _BUSY,
    ) -> Answer:
        """One answer. All that is sent here may be sent twice: reads, server-side apply, delete, reviews."""
        end = time.monotonic() + self.patience
        delay = 0.25
        headers = {"Content-Type": type_} if type_ else {}
        while True:
            try:
                response = self._http.request(method, path, query=_given(query), body=body, headers=headers)
            except NoCredentialsError as error:
                raise self._no_credentials(error) from None
            except NO_ANSWER as error:
                told: TrainwrightError = self._unreachable(error)
                if _is_final(error):
                    raise told from None
            else:
                if response.status not in busy:
                    self.patience = PATIENCE_ONCE_SEEN
                    return response
                told = refusal(response.status, _parsed(response.text), Asked(self.context, method.lower(), path))
            if time.monotonic() + delay >= end:
                raise told
            self._pause(delay)
            delay = min(delay * 1.7, 5.0)

    def _unreachable(self, error: Exception) -> SystemUnreachable:
        server = self._http.server
        text = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in text:
            what = f"the certificate of {server} (context {self.context}) is not trusted: {text.rpartition(': ')[2]}"
            return SystemUnreachable(what, "update certificate-authority in the kubeconfig")
        what = f"the API server {server} of context {self.context} does not answer: {text}"
        way_out = f"check the network or VPN: kubectl --context {self.context} get --raw /readyz"
        return SystemUnreachable(what, way_out)

    def _no_credentials(self, error: Exception) -> SystemUnreachable:
        why = " ".join(str(error).split())[:300]
        what = f"credentials for context {self.context} cannot be had: {why}"
        return SystemUnreachable(what, f"log in again, and try: kubectl --context {self.context} get ns")


def connect(context: str | None = None, namespace: str | None = None) -> HttpCluster:
    """The cluster of a context of the user's kubeconfig; no request is sent yet.

    Raises InputError for a kubeconfig that cannot be used.
    """
    return _connected(context, namespace, os.environ.get("KUBECONFIG", ""), os.environ.get("HOME", ""))


@cache
def _connected(context: str | None, namespace: str | None, files: str, home: str) -> HttpCluster:
    """One connection for every cluster and namespace: targets are made anew for every call, connections are not."""
    config = read_kubeconfig(os.environ, context)
    name = str(config["current-context"])
    about = _entry(config, "contexts", name)
    cluster, user = _entry(config, "clusters", about.get("cluster")), _entry(config, "users", about.get("user"))
    try:
        if wrong := problem_with(user):
            raise ValueError(wrong)
        tls = tls_of(cluster, user)
        http = Connection(
            str(cluster.get("server") or ""), connect_seconds=CONNECT_SECONDS, read_seconds=READ_SECONDS, tls=tls,
            server_name=cluster.get("tls-server-name"), proxy=cluster.get("proxy-url"),
            credentials=Credentials(user, tls),
        )  # fmt: skip
    except (OSError, ValueError, TypeError) as error:
        what = f"cannot be used for context {name}: {' '.join(str(error).split())}"
        raise InputError([Problem(str(config["files"]), what=what, instead="write the kubeconfig anew")]) from error
    return HttpCluster(http, name, namespace or str(about.get("namespace") or "default"))


def _entry(config: Mapping[str, Any], table: str, name: str | None) -> dict[str, Any]:
    """The entry of that name; ``read_kubeconfig`` has seen to it that there is one."""
    found: dict[str, Any] = next(one for one in config[table] if one.get("name") == name)[table.removesuffix("s")]
    return found


def _given(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value not in (None, "")}


def _selector(labels: Mapping[str, str] | str) -> str:
    return labels if isinstance(labels, str) else ",".join(f"{name}={value}" for name, value in labels.items())


def _parsed(text: str) -> Any:  # Any: a JSON value, or the text itself
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_absent(response: Answer, resource: Resource, name: str) -> bool:
    """True for "no such object"; False when the API server does not know the kind, or the namespace."""
    body = _parsed(response.text)
    details = (body.get("details") or {}) if isinstance(body, dict) else {}
    return bool(details.get("name") == name and details.get("kind") == resource.plural)


def _is_final(error: Exception) -> bool:
    """A certificate that is not trusted stays so, and a name that is not known is not worth a long wait."""
    text = str(error)
    return "CERTIFICATE_VERIFY_FAILED" in text or "Name or service not known" in text
