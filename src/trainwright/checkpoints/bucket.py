"""What a checkpoint needs of an object store, and the same of a real one (``trainwright.object_store``).

Keys and bytes only: no manifest, no protocol of commits, no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol
from urllib.parse import urlsplit

from trainwright.errors import InputError, Problem
from trainwright.object_store import open_store, store_errors

_PART = 16 << 20  # bytes; S3 takes at most 10,000 parts, so objects may be 156 GiB
_PARTS_IN_FLIGHT = 4


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
        self.url = url
        self._store = open_store(url, f"keeping checkpoints in {url}", parts.path.strip("/"))
        import obstore

        self._obstore: Any = obstore  # its functions are not typed here

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

    def _errors(self, key: str) -> AbstractContextManager[None]:
        return store_errors(self.url, key, writes=True)
