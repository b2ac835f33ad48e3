"""Object stores, S3 and the others of obstore: one client, one set of limits, one way to fail.

Takes an address such as ``s3://bucket/prefix``; gives an obstore store, and turns its exceptions into ours.
Credentials are found by the client: environment, web identity, instance role. Needs the ``s3`` extra, imported on
use; must not know what is kept there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from trainwright.errors import InputError, MissingExtra, Problem, SystemUnreachable

RETRY: dict[str, Any] = {"max_retries": 10}
"""With growing pauses: 503 SlowDown is S3's way to ask for them."""
STALLED = "60s"
"""A request that moves no byte for so long has failed and is tried again."""


def open_store(url: str, purpose: str, prefix: str = "") -> Any:  # Any: obstore's stores have no common type
    """The store of an address's bucket; keys are relative to ``prefix``. Without obstore ``purpose`` is told."""
    try:
        from obstore.store import from_url
    except ImportError:
        raise MissingExtra(purpose, "s3") from None
    parts = urlsplit(url)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    config: dict[str, Any] = {"endpoint": endpoint} if endpoint and parts.scheme == "s3" else {}
    client: dict[str, Any] = {"connect_timeout": "10s", "read_timeout": STALLED, "timeout": "10m"}
    if config and str(endpoint).startswith("http://"):
        client["allow_http"] = True
    bucket = f"{parts.scheme}://{parts.netloc}"
    return from_url(f"{bucket}/{prefix}" if prefix else bucket, client_options=client, retry_config=RETRY, **config)


@contextmanager
def store_errors(url: str, key: str = "", *, writes: bool = False) -> Iterator[None]:
    """Raise SystemUnreachable, or InputError for an object that changed meanwhile, for what obstore raises inside.

    FileNotFoundError passes: whether that is wrong is for the caller to say.
    """
    try:
        from obstore import exceptions
    except ImportError:
        raise MissingExtra(f"reaching {url}", "s3") from None
    try:
        yield
    except FileNotFoundError:
        raise
    except exceptions.PreconditionError:
        raise InputError([Problem(url, what="an object changed while it was copied; run again")]) from None
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError):
        verbs = "s3:ListBucket, s3:GetObject and s3:PutObject" if writes else "s3:ListBucket and s3:GetObject"
        where = f" ({key})" if key else ""
        raise SystemUnreachable(f"{url} refuses us{where}", f"give this machine or its role {verbs}") from None
    except (exceptions.BaseError, ConnectionError, TimeoutError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        where = f" at {key}" if key else ""
        way_out = "check the network, the region and the endpoint (AWS_REGION, AWS_ENDPOINT_URL)"
        raise SystemUnreachable(f"{url} failed{where}: {first[:200]}", way_out) from None
