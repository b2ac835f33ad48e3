"""Point the webhooks of a controller's manifests at a process on the API server's own loopback.

``webhooks.py NAME PORT AUTHORITY <manifests``: a release reaches its webhooks by a Service; here the controller runs
beside the API server, so that every ``clientConfig.service`` becomes a URL with the certificate of its authority.
NAME goes before the names of webhook configurations, which are the same in several releases.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml


def main(name: str, port: str, authority: str) -> None:
    bundle = base64.b64encode(Path(authority).read_bytes()).decode()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [document for document in yaml.load_all(sys.stdin, loader) if document and document["kind"] != "Service"]
    for document in found:
        if document["kind"].endswith("WebhookConfiguration"):
            document["metadata"]["name"] = f"{name}-{document['metadata']['name']}"
        for client in client_configs(document):
            service = client.pop("service")
            client.update(url=f"https://127.0.0.1:{port}{service.get('path', '/')}", caBundle=bundle)
    yaml.dump_all(found, sys.stdout, getattr(yaml, "CSafeDumper", yaml.SafeDumper))


def client_configs(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of admission webhooks and of a definition's conversion."""
    for webhook in document.get("webhooks", ()):
        yield webhook["clientConfig"]
    conversion = document.get("spec", {}).get("conversion", {})
    if "webhook" in conversion:
        yield conversion["webhook"]["clientConfig"]


if __name__ == "__main__":
    main(*sys.argv[1:])
