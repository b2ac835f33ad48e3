"""From what an API server answers to the one error that a user sees. Pure: a code and a body in, an error out.

Takes the HTTP status, the Status object (or the text) that came with it and what was asked for. It must not know how
the request was sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.errors import AnswerNo, InputError, Problem, SystemUnreachable, TrainwrightError
from trainwright.facts.operators import operator_of
from trainwright.targets.reasons import match

_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]+)"| at the cluster scope)?'
)
_WEBHOOK_DOWN = re.compile(r'failed calling webhook "(?P<hook>[^"]+)"[^:]*: (?P<why>.+)', re.DOTALL)
_WEBHOOK_DENIED = re.compile(r'admission webhook "(?P<hook>[^"]+)" denied the request:? ?(?P<why>.+)', re.DOTALL)
_UNKNOWN_FIELD = re.compile(
    r'unknown field "(?P<field>[^"]+)"|\.(?P<schema>[\w.\[\]]+): field not declared in schema'
)


@dataclass(frozen=True)
class Asked:
    """What a request was about. ``user`` of messages is the server's own; ``context`` is the kubeconfig's."""

    context: str
    verb: str
    resource: str  # jobs.batch
    kind: str = ""
    api_version: str = ""
    name: str = ""
    namespace: str = ""
    source: str = ""  # file of the bundle

    @property
    def what(self) -> str:
        """``Job/train-1``."""
        return f"{self.kind or self.resource}/{self.name}" if self.name else self.kind or self.resource


def missing_kind(api_version: str, kind: str, context: str) -> TrainwrightError:
    """The cluster does not serve a kind: which chart brings it, in which version."""
    group = api_version.rpartition("/")[0]
    operator = operator_of(group, kind)
    what = f"{kind} ({api_version}) is not served by the cluster of context {context}"
    if operator is None:
        return AnswerNo(what, "install the operator that brings it, or choose another --target")
    version = f" {operator.version}" if operator.version else ""
    return AnswerNo(f"{what}: {operator.name}{version} is not installed", operator.install)


def refusal(code: int, body: Any, asked: Asked) -> TrainwrightError:
    """The error for an answer that is no success. ``body`` is the parsed Status, or text."""
    status: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    message = str(status.get("message") or (body if isinstance(body, str) else "")).strip()
    if code == 401:
        return SystemUnreachable(
            f"the cluster of context {asked.context} does not accept your credentials: missing or expired",
            "log in again (EKS: aws sso login, then aws eks update-kubeconfig), then repeat the command",
        )
    if code == 403:
        return _forbidden(message, asked)
    if code == 404:
        return _not_found(status, message, asked)
    if code in (400, 422) and not _WEBHOOK_DENIED.search(message):
        return _invalid(status, message, asked)
    if code == 409:
        return _conflict(status, message, asked)
    down = _WEBHOOK_DOWN.search(message)
    if down:
        what = f"{asked.what} cannot be checked: the webhook {down['hook']} does not answer"
        why = down["why"].rpartition(": ")[2].strip()
        return SystemUnreachable(f"{what} ({why})", "look at the operator's pods: it is not running or just starting")
    if _WEBHOOK_DENIED.search(message):
        return _denied(message, asked)
    text = message or f"HTTP {code}"
    return SystemUnreachable(f"the API server of context {asked.context} failed: {_one_line(text)}", "try again")


def _forbidden(message: str, asked: Asked) -> TrainwrightError:
    found = _FORBIDDEN.search(message)
    if found is not None:
        group = found["group"] or ""
        resource = f"{found['resource']}.{group}" if group else found["resource"]
        inside = f" in namespace {found['namespace']}" if found["namespace"] else ""
        flag = f" -n {found['namespace']}" if found["namespace"] else ""
        return SystemUnreachable(
            f"{found['user'] or 'you'} may not {found['verb']} {resource}{inside} (context {asked.context})",
            f"ask for the verb {found['verb']} on {resource};"
            f" check it with: kubectl auth can-i {found['verb']} {resource}{flag}",
        )
    if _WEBHOOK_DENIED.search(message) or "denied request" in message:
        return _denied(message, asked)
    known = match("kubernetes-job", f"Error creating: {message}", where="FailedCreate")
    if known is not None and known.role == "cause":
        return AnswerNo(f"{asked.what}: {known.reason.sentence}", known.reason.next_step)
    if "is being terminated" in message:
        return AnswerNo(f"namespace {asked.namespace} is being deleted", "name another namespace in the site file")
    return AnswerNo(f"the cluster refuses {asked.what}: {_one_line(message)}", "")


def _denied(message: str, asked: Asked) -> TrainwrightError:
    found = _WEBHOOK_DENIED.search(message)
    for system in ("volcano", "kueue"):
        known = match(system, message)
        if known is not None and known.role == "cause":
            return AnswerNo(f"{asked.what}: {known.reason.sentence}", known.reason.next_step)
    who = f"the webhook {found['hook']}" if found else "a policy of the cluster"
    why = _one_line(found["why"] if found else message)
    return AnswerNo(f"{who} refuses {asked.what}: {why}", "change it by target.overrides or in the site file")


def _not_found(status: Mapping[str, Any], message: str, asked: Asked) -> TrainwrightError:
    kind = (status.get("details") or {}).get("kind")
    if kind == "namespaces":
        what = f"there is no namespace {asked.namespace} in the cluster of context {asked.context}"
        instead = f"name one that exists, or: kubectl create namespace {asked.namespace}"
        return InputError([Problem("site", field="kubernetes.namespace", what=what, instead=instead)])
    if asked.kind and (not status or "could not find the requested resource" in message):
        return missing_kind(asked.api_version, asked.kind, asked.context)
    return AnswerNo(f"{asked.what} is not there: {_one_line(message)}", "")


def _invalid(status: Mapping[str, Any], message: str, asked: Asked) -> TrainwrightError:
    where = asked.source or asked.what
    causes = (status.get("details") or {}).get("causes") or ()
    problems = [
        Problem(where, field=str(cause.get("field") or ""), what=_one_line(str(cause.get("message") or "")))
        for cause in causes
        if cause.get("message")
    ]
    if not problems:
        unknown = [one["field"] or one["schema"] for one in _UNKNOWN_FIELD.finditer(message)]
        what = f"this cluster's {asked.kind} ({asked.api_version}) has no such field"
        instead = "render for its version: --versions"
        problems = [Problem(where, field=field, what=what, instead=instead) for field in dict.fromkeys(unknown)]
    return InputError(problems or [Problem(where, what=f"is refused by the API server: {_one_line(message)}")])


def _conflict(status: Mapping[str, Any], message: str, asked: Asked) -> TrainwrightError:
    if "object is being deleted" in message or "being deleted" in message:
        return AnswerNo(f"{asked.what} of an earlier submit is still being deleted", "submit again when it is gone")
    return AnswerNo(f"{asked.what} was changed by somebody else: {_one_line(message)}", "submit again")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 600 else line[:599] + "…"
