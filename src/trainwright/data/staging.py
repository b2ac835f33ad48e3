"""Objects of a bucket → files of a folder, copied once and known by their ETag.

Takes an address such as ``s3://bucket/prefix``; gives the local path of the copy. How a store is reached is for
``trainwright.object_store``; what the files mean is for readers.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainwright.data.progress import Teller
from trainwright.data.sources import included
from trainwright.errors import InputError, Problem
from trainwright.object_store import open_store, store_errors
from trainwright.runs.folder import read_json, write_atomically
from trainwright.runs.progress import Progress

_RANGE_BYTES = 32 << 20  # one request each: a stalled one is retried alone, well inside the client's time limit
_IN_FLIGHT = 16
_RECORD = ".staged.json"


@dataclass(frozen=True, slots=True)
class _Object:
    name: str
    path: str
    size: int
    etag: str


def stage(
    url: str, cache: Path, progress: Progress, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Path:
    """Copy one object or all below a prefix; gives the copy's path. Objects that have not changed are not copied.

    Raises InputError when there is nothing of that name, SystemUnreachable when the store refuses or is not there.
    """
    with _errors(url):
        store = open_store(url, f"reading {url}")
        base = urlsplit(url).path.strip("/")
        single = _head(store, base)
        objects = [single] if single else list(_list(store, base))
    wanted = [one for one in objects if single or included(one.name, include, exclude)]
    if not wanted:
        what = f"holds {len(objects)} objects, none of which fits" if objects else "no such object or prefix"
        raise InputError([Problem(url, what=what, instead="check the address, include and exclude")])
    unsafe = [one for one in wanted if one.name.startswith("/") or ".." in one.name.split("/")]
    if unsafe:
        raise InputError([Problem(url, what=f"holds {unsafe[0].name}, which is no name for a file")])
    choice = json.dumps([url, *include, None, *exclude])  # another choice of the same prefix is another copy
    folder = cache / hashlib.sha256(choice.encode()).hexdigest()[:32]
    _copy(url, store, wanted, folder, progress)
    return folder / wanted[0].name if single else folder


def _copy(url: str, store: Any, wanted: list[_Object], folder: Path, progress: Progress) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    record = read_json(folder / _RECORD) or {}
    stamps = {one.name: _stamp(folder / one.name, one) for one in wanted}
    kept = {name: stamp for name, stamp in stamps.items() if stamp is not None and record.get(name) == stamp}
    missing = [one for one in wanted if one.name not in kept]
    teller = Teller(progress)
    teller.begin("fetch", sum(one.size for one in missing))
    _remove_gone(folder, record, {one.name for one in wanted})
    try:
        with _errors(url):
            for one in _fetch(store, missing, folder, teller):
                kept[one.name] = _stamp(folder / one.name, one) or []
    finally:  # what has arrived before an error need not be fetched again
        if kept != record:
            write_atomically(folder / _RECORD, json.dumps(kept))


def _fetch(store: Any, objects: list[_Object], folder: Path, teller: Teller) -> Iterator[_Object]:
    """Fetch ranges of objects, several at a time, and write them in order; yields each object that is whole."""
    jobs = ((one, start) for one in objects for start in range(0, max(one.size, 1), _RANGE_BYTES))
    waiting: deque[tuple[_Object, int, Future[bytes]]] = deque()
    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        temporary, handle = Path(), None
        try:
            while True:
                while len(waiting) < _IN_FLIGHT and (job := next(jobs, None)):
                    waiting.append((*job, pool.submit(_range, store, *job)))
                if not waiting:
                    return
                one, start, future = waiting.popleft()
                if start == 0:
                    target = folder / one.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
                    handle = temporary.open("xb")
                data = future.result()
                assert handle is not None
                handle.write(data)
                teller.advance(len(data))
                if start + len(data) >= one.size:
                    handle.flush()
                    os.fsync(handle.fileno())
                    handle.close()
                    os.replace(temporary, folder / one.name)
                    yield one
        finally:
            for _, _, future in waiting:
                future.cancel()
            if handle is not None and not handle.closed:
                handle.close()
                with suppress(OSError):
                    temporary.unlink()


def _range(store: Any, one: _Object, start: int) -> bytes:
    """Bytes of one range, of exactly the object that was listed: a newer one is refused by its ETag."""
    if not one.size:
        return b""
    stop = min(start + _RANGE_BYTES, one.size)
    data = bytes(store.get(one.path, options={"range": (start, stop), "if_match": one.etag}).bytes())
    if len(data) != stop - start:
        raise ConnectionError(f"{one.name}: {len(data)} bytes came instead of {stop - start}")
    return data


def _stamp(path: Path, one: _Object) -> list[Any] | None:
    """What is remembered of a copy; None when the file is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [one.etag, status.st_size, status.st_mtime_ns] if status.st_size == one.size else None


def _remove_gone(folder: Path, record: dict[str, Any], names: set[str]) -> None:
    """A copy of an object that is no longer wanted would be read as data."""
    for name in set(record) - names:
        (folder / name).unlink(missing_ok=True)


def _head(store: Any, path: str) -> _Object | None:
    if not path:
        return None
    try:
        found = store.head(path)
    except FileNotFoundError:
        return None
    return _Object(path.rsplit("/", 1)[-1], path, int(found["size"]), str(found["e_tag"]))


def _list(store: Any, base: str) -> Iterator[_Object]:
    for chunk in store.list(base or None):
        for found in chunk:
            path = str(found["path"])
            name = path[len(base) :].lstrip("/")
            yield _Object(name, path, int(found["size"]), str(found["e_tag"]))


@contextmanager
def _errors(url: str) -> Iterator[None]:
    """The store's exceptions as ours; what is not there was named wrongly."""
    try:
        with store_errors(url):
            yield
    except FileNotFoundError:
        raise InputError([Problem(url, what="no such bucket or object", instead="check the address")]) from None
