"""What a checkpoint needs of an object store, and S3 (and what speaks like it) through obstore.

Keys and bytes only: no manifest, no protocol of commits, no torch. Credentials are found by the client: environment,
web identity, instance role. Needs the ``s3`` extra, imported on use.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

from trainwright.errors import InputError, MissingExtra, Problem, SystemUnreachable

_PART = 16 << 20  # bytes; S3 takes at most 10,000 parts, so objects may be 156 GiB
_PARTS_IN_FLIGHT = 4
_RETRY: dict[str, Any] = {"max_retries": 10}  # with growing pauses: 503 SlowDown is S3's way to ask for them
_STALLED = "60s"  # a request that moves no byte for so long has failed and is tried again


class ObjectStore(Protocol):
    """The five verbs. Every method raises SystemUnreachable when the store refuses or is not there."""

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        """Write an object from its pieces; readers see it whole or not at all."""

    def create(self, key: str, data: bytes) -> bool:
        """Write a small object that must not be there yet (If-None-Match: *); False when it is there already."""
        ...

    def get(self, key: str) -> Iterator[bytes]:
        """An object's pieces in order; FileNotFoundError when it is not there."""
        ...

    def size(self, key: str) -> int | None:
        """Bytes of an object, None when it is not there."""
        ...

    def keys(self, prefix: str) -> list[str]:
        """Keys that begin with ``prefix``, sorted."""
        ...


class Bucket:
    """``s3://bucket/prefix`` through obstore; keys are relative to the prefix."""

    def __init__(self, url: str):
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc:
            raise InputError([Problem(url, what="is no bucket", instead="write s3://bucket or s3://bucket/prefix")])
        try:
            import obstore
            from obstore.store import S3Store
        except ImportError:
            raise MissingExtra(f"keeping checkpoints in {url}", "s3") from None
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        client: dict[str, Any] = {"connect_timeout": "10s", "read_timeout": _STALLED, "timeout": "10m"}
        if endpoint and endpoint.startswith("http://"):
            client["allow_http"] = True
        self.url = url
        self._obstore: Any = obstore  # its functions are not typed here
        self._store: Any = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options=client,
            retry_config=_RETRY,
            **({"endpoint": endpoint} if endpoint else {}),
        )

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        """Multipart upload; an error before its end leaves no object."""
        with self._errors(key):
            self._obstore.put(self._store, key, parts, chunk_size=_PART, max_concurrency=_PARTS_IN_FLIGHT)

    def create(self, key: str, data: bytes) -> bool:
        """Conditional put."""
        with self._errors(key):
            try:
                self._obstore.put(self._store, key, data, mode="create")
            except (FileExistsError, self._obstore.exceptions.AlreadyExistsError):
                return False
        return True

    def get(self, key: str) -> Iterator[bytes]:
        """Streamed, not held in memory."""
        with self._errors(key):
            for piece in self._obstore.get(self._store, key).stream(min_chunk_size=1 << 20):
                yield bytes(piece)

    def size(self, key: str) -> int | None:
        """By HEAD."""
        with self._errors(key):
            try:
                return int(self._obstore.head(self._store, key)["size"])
            except FileNotFoundError:
                return None

    def keys(self, prefix: str) -> list[str]:
        """All pages of the listing. obstore's own prefix means whole folders, so this one is applied here."""
        with self._errors(prefix):
            pages = self._obstore.list(self._store)
            paths = (str(found["path"]) for page in pages for found in page)
            return sorted(path for path in paths if path.startswith(prefix))

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        exceptions = self._obstore.exceptions
        try:
            yield
        except FileNotFoundError:
            raise
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError):
            way_out = "give this machine or its role s3:ListBucket, s3:GetObject and s3:PutObject"
            raise SystemUnreachable(f"{self.url} refuses us ({key})", way_out) from None
        except (exceptions.BaseError, ConnectionError, TimeoutError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            way_out = "check the network, the region and the endpoint (AWS_REGION, AWS_ENDPOINT_URL)"
            raise SystemUnreachable(f"{self.url} failed at {key}: {first[:200]}", way_out) from None
