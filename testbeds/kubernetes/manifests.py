"""Make a controller's manifests fit the bed: ``manifests.py NAME PORT AUTHORITY [WEBHOOK…] <manifests``.

A release reaches its webhooks by a Service; here the controller runs beside the API server, so that every
``clientConfig.service`` becomes a URL on loopback with the certificate of its authority. NAME goes before the names
of webhook configurations, which are the same in several releases. Descriptions of definitions go: they are most of
their size, and the server reads them again and again. With WEBHOOKs, all others are left out.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml


def main(name: str, port: str, authority: str, *only: str) -> None:
    bundle = base64.b64encode(Path(authority).read_bytes()).decode()
    documents = yaml.load_all(sys.stdin, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    found = [document for document in documents if document and document["kind"] != "Service"]
    for document in found:
        if document["kind"].endswith("WebhookConfiguration"):
            document["metadata"]["name"] = f"{name}-{document['metadata']['name']}"
            document["webhooks"] = [each for each in document["webhooks"] if not only or each["name"] in only]
        for client in client_configs(document):
            service = client.pop("service")
            client.update(url=f"https://127.0.0.1:{port}{service.get('path', '/')}", caBundle=bundle)
        if document["kind"] == "CustomResourceDefinition":
            drop_descriptions(document["spec"]["versions"])
    json.dump({"apiVersion": "v1", "kind": "List", "items": found}, sys.stdout)


def client_configs(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of admission webhooks and of a definition's conversion."""
    for webhook in document.get("webhooks", ()):
        yield webhook["clientConfig"]
    conversion = document.get("spec", {}).get("conversion", {})
    if "webhook" in conversion:
        yield conversion["webhook"]["clientConfig"]


def drop_descriptions(value: Any) -> None:
    """In place. A property that is called ``description`` is a schema, not a text, and stays."""
    for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        drop_descriptions(each)
    if isinstance(value, dict) and isinstance(value.get("description"), str):
        del value["description"]


if __name__ == "__main__":
    main(*sys.argv[1:])
