"""Which cluster is meant: kubeconfig files as kubectl reads them, or the service account of the pod we run in.

Takes the environment and the name of a context; gives one plain kubeconfig with absolute paths. Everything that can
be wrong with it is one InputError. It must not know how a connection is made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from trainwright.errors import InputError, Problem, did_you_mean

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def read_kubeconfig(environment: Mapping[str, str], context: str | None = None) -> dict[str, Any]:
    """The kubeconfig with ``current-context`` set to what is meant. Raises InputError with the way out."""
    config = _merged(environment)
    known = [str(entry.get("name")) for entry in config["contexts"]]
    chosen = context or config.get("current-context")
    if not chosen:
        instead = (
            f"kubectl config use-context NAME, or kubernetes.context in the site file: one of {', '.join(known)}"
        )
        raise _bad(config["files"], "current-context", "names no context", instead)
    if chosen not in known:
        raise _bad(config["files"], "contexts", f"has no context {chosen!r}", did_you_mean(str(chosen), known))
    about = next(entry.get("context") or {} for entry in config["contexts"] if entry.get("name") == chosen)
    for key, table in (("cluster", "clusters"), ("user", "users")):
        name = about.get(key)
        if name and name not in [entry.get("name") for entry in config[table]]:
            raise _bad(config["files"], f"contexts.{chosen}.{key}", f"names {name!r}, which is not under {table}", "")
    if not about.get("cluster"):
        raise _bad(config["files"], f"contexts.{chosen}.cluster", "is missing", "name a cluster")
    if not about.get("user"):  # kubectl asks for a password then; a program goes on without
        about["user"] = "nobody"
        config["users"].append({"name": "nobody", "user": {}})
    return {**config, "current-context": chosen}


def _merged(environment: Mapping[str, str]) -> dict[str, Any]:
    """All files in one; of two entries of one name the first counts, as with kubectl."""
    named = [Path(part).expanduser() for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    usual = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    files = [path for path in named or [usual] if path.is_file()]
    if not files and not named and (SERVICE_ACCOUNT / "token").is_file():
        return _in_cluster(environment)
    if not files:
        where = ", ".join(map(str, named or [usual]))
        instead = "set KUBECONFIG, or write one (EKS: aws eks update-kubeconfig --name CLUSTER)"
        raise InputError([Problem(where, what="there is no kubeconfig", instead=instead)])
    merged: dict[str, Any] = {"clusters": [], "contexts": [], "users": [], "files": ", ".join(map(str, files))}
    for path in files:
        content = _read(path)
        for table in ("clusters", "contexts", "users"):
            known = {entry.get("name") for entry in merged[table]}
            merged[table] += [entry for entry in content[table] if entry.get("name") not in known]
        if content.get("current-context"):
            merged.setdefault("current-context", content["current-context"])
    return merged


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise _bad(str(path), "", f"cannot be read: {error.strerror}", "") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 0
        raise InputError(
            [Problem(str(path), line, what="is not YAML", instead="write the kubeconfig anew")]
        ) from error
    if not isinstance(content, dict):
        raise _bad(str(path), "", "is no kubeconfig", "write it anew")
    for table, part in (("clusters", "cluster"), ("contexts", "context"), ("users", "user")):
        entries = content.get(table) or []
        if not isinstance(entries, list) or not all(
            isinstance(one, dict) and isinstance(one.get(part) or {}, dict) for one in entries
        ):
            raise _bad(str(path), table, "is not a list of named entries", "write the kubeconfig anew")
        content[table] = [
            {"name": one.get("name"), part: _mended(one.get(part) or {}, path.parent)} for one in entries
        ]
    return content


def _mended(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Paths absolute; an exec plugin told for which version it answers, as kubectl tells it."""
    for key in _PATHS:
        if isinstance(values.get(key), str) and not os.path.isabs(values[key]):
            values[key] = str(folder / values[key])
    plugin = values.get("exec")
    if isinstance(plugin, dict):
        version = plugin.get("apiVersion")
        told = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        told_by = {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps(told)}
        values["exec"] = {**plugin, "env": [*(plugin.get("env") or []), told_by]}
    return values


def _in_cluster(environment: Mapping[str, str]) -> dict[str, Any]:
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError:
        namespace = "default"
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return {
        "files": str(SERVICE_ACCOUNT),
        "clusters": [
            {
                "name": "in-cluster",
                "cluster": {"server": server, "certificate-authority": str(SERVICE_ACCOUNT / "ca.crt")},
            }
        ],
        "users": [{"name": "in-cluster", "user": {"tokenFile": str(SERVICE_ACCOUNT / "token")}}],
        "contexts": [
            {
                "name": "in-cluster",
                "context": {"cluster": "in-cluster", "user": "in-cluster", "namespace": namespace},
            }
        ],
        "current-context": "in-cluster",
    }


def _bad(path: str, field: str, what: str, instead: str) -> InputError:
    return InputError([Problem(path, field=field, what=what, instead=instead)])
