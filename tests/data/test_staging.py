from __future__ import annotations

import importlib.util
import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trainwright import object_store
from trainwright.data import staging
from trainwright.data.prepare import prepare
from trainwright.data.progress import silent
from trainwright.data.staging import stage
from trainwright.errors import InputError, MissingExtra, SystemUnreachable
from trainwright.spec.model import RunSpec

if TYPE_CHECKING:
    from types import ModuleType

pytest.importorskip("obstore")


def _bucket_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bucket", Path(__file__).with_name("bucket.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with _bucket_module().serving(page_size=2) as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield found


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".staged.json"
    }


def test_all_objects_below_a_prefix_are_copied(bucket: Any, tmp_path: Path) -> None:
    bucket.objects |= {
        "corpus/a.txt": b"aa",
        "corpus/deep/b.txt": b"bbb",
        "corpus/empty.txt": b"",
        "corpus2/c.txt": b"c",
    }
    folder = stage("s3://bucket/corpus", tmp_path, silent)
    assert tree(folder) == {"a.txt": b"aa", "deep/b.txt": b"bbb", "empty.txt": b""}


def test_one_object_may_be_named(bucket: Any, tmp_path: Path) -> None:
    bucket.objects |= {"x/a.jsonl": b"{}", "x/a.jsonl.bak": b"no"}
    path = stage("s3://bucket/x/a.jsonl", tmp_path, silent)
    assert (path.name, path.read_bytes()) == ("a.jsonl", b"{}")


def test_large_objects_come_in_ranges(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_RANGE_BYTES", 1000)
    content = {f"c/{n}": bytes(range(256)) * (n * 3 + 1) for n in range(12)}
    bucket.objects |= content
    folder = stage("s3://bucket/c/", tmp_path, silent)
    assert tree(folder) == {key.removeprefix("c/"): value for key, value in content.items()}
    assert bucket.gets.count("c/11") > 5


def test_only_what_is_wanted_is_fetched(bucket: Any, tmp_path: Path) -> None:
    bucket.objects |= {"c/a.txt": b"a", "c/b.bin": b"b", "c/test/c.txt": b"c"}
    folder = stage("s3://bucket/c", tmp_path, silent, ["*.txt"], ["test/**"])
    assert tree(folder) == {"a.txt": b"a"}
    assert bucket.gets == ["c/a.txt"]


def test_what_has_not_changed_is_not_fetched_again(bucket: Any, tmp_path: Path) -> None:
    bucket.objects |= {"c/a": b"a", "c/b": b"b", "c/c": b"c"}
    folder = stage("s3://bucket/c", tmp_path, silent)
    bucket.gets.clear()
    bucket.objects["c/b"] = b"B"
    del bucket.objects["c/c"]
    assert stage("s3://bucket/c", tmp_path, silent) == folder
    assert bucket.gets == ["c/b"]
    assert tree(folder) == {"a": b"a", "b": b"B"}


@pytest.mark.parametrize("damage", [b"x", b"much too long"])
def test_a_copy_that_was_altered_is_fetched_again(bucket: Any, tmp_path: Path, damage: bytes) -> None:
    bucket.objects |= {"c/a": b"a"}
    folder = stage("s3://bucket/c", tmp_path, silent)
    (folder / "a").write_bytes(damage)
    stage("s3://bucket/c", tmp_path, silent)
    assert tree(folder) == {"a": b"a"}


def test_an_object_that_changes_between_listing_and_copy_is_refused(bucket: Any, tmp_path: Path) -> None:
    bucket.objects |= {"c/a": b"old"}
    bucket.on_list = lambda: bucket.objects.update({"c/a": b"new"})
    with pytest.raises(InputError, match="changed while it was copied"):
        stage("s3://bucket/c", tmp_path, silent)
    assert not list(tmp_path.rglob("a"))


def test_what_arrived_before_an_error_is_kept(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.objects |= {"c/a": b"a", "c/b": b"b"}
    original = staging._range

    def failing(store: Any, one: Any, start: int) -> bytes:
        if one.name == "b":
            raise ConnectionError("reset")
        return original(store, one, start)

    monkeypatch.setattr(staging, "_range", failing)
    with pytest.raises(SystemUnreachable, match="reset"):
        stage("s3://bucket/c", tmp_path, silent)
    monkeypatch.setattr(staging, "_range", original)
    bucket.gets.clear()
    stage("s3://bucket/c", tmp_path, silent)
    assert bucket.gets == ["c/b"]


def test_a_missing_prefix_and_a_refusal_are_told_apart(bucket: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such object or prefix"):
        stage("s3://bucket/nothing", tmp_path, silent)
    bucket.objects |= {"c/a": b"a"}
    with pytest.raises(InputError, match="holds 1 objects, none of which fits"):
        stage("s3://bucket/c", tmp_path, silent, ["*.txt"])
    bucket.answer_with = 403
    with pytest.raises(SystemUnreachable, match="refuses us; give this machine or its role s3:ListBucket"):
        stage("s3://bucket/c", tmp_path, silent)


def test_a_name_that_leads_out_of_the_folder_is_refused(bucket: Any, tmp_path: Path) -> None:
    bucket.objects |= {"c/ok": b"a", "c/../../evil": b"b"}
    with pytest.raises((InputError, SystemUnreachable)):
        stage("s3://bucket/c", tmp_path / "cache", silent)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("broken", ["refused", "stalled"])
def test_a_store_that_is_not_there_or_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broken: str
) -> None:
    monkeypatch.setattr(object_store, "RETRY", {"max_retries": 0})
    monkeypatch.setattr(object_store, "STALLED", "1s")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if broken == "stalled":
            server.listen(8)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(SystemUnreachable, match="AWS_ENDPOINT_URL"):
            stage("s3://nowhere/c", tmp_path, silent)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtra, match=r"trainwright\[s3\]"):
        stage("s3://bucket/c", tmp_path, silent)


def test_prepare_reads_from_a_bucket(
    bucket: Any, make_spec: Callable[..., RunSpec], tmp_path: Path, model: Path
) -> None:
    rows = "".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(20)).encode()
    bucket.objects |= {"corpus/part-0.jsonl": rows, "corpus/README.md": b"about"}
    bucket.objects |= {f"model/{path.name}": path.read_bytes() for path in model.iterdir()}
    spec = make_spec("s3://bucket/corpus", _model="s3://bucket/model")
    data = prepare(spec, tmp_path / "cache")
    assert data.manifest.counts.documents == 20
    bucket.gets.clear()
    assert prepare(spec, tmp_path / "cache").folder == data.folder
    assert bucket.gets == []
