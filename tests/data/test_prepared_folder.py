from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.data import prepared
from trainwright.data.manifest import Manifest
from trainwright.data.prepare import prepare
from trainwright.data.prepared import PreparedData
from trainwright.data.prepared_folder import building
from trainwright.data.shard_writer import HashedFile
from trainwright.errors import AnswerNo, TrainwrightError
from trainwright.spec.model import RunSpec

SpecMaker = Callable[..., RunSpec]
KILLED = 9


@pytest.fixture
def spec(make_spec: SpecMaker, write_jsonl: Callable[..., Path]) -> RunSpec:
    rows = [{"text": f"document {number}"} for number in range(30)]
    return make_spec(write_jsonl([*rows, {"prompt": "a", "completion": "b"}]), workers=1)


def die_at(call: int) -> None:
    """End this process, as SIGKILL would, just before the given write, fsync or rename of the cache."""
    count = 0

    def counted(original: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*arguments: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count == call:
                os._exit(KILLED)
            return original(*arguments, **named)

        return wrapper

    HashedFile.write = counted(HashedFile.write)  # type: ignore[method-assign,assignment]
    os.fsync = counted(os.fsync)  # type: ignore[assignment]
    os.rename = counted(os.rename)  # type: ignore[assignment]
    os.mkdir = counted(os.mkdir)  # type: ignore[assignment]


def in_child(work: Callable[[], object]) -> int:
    """Exit code of a forked child that does some work."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - it must not reach pytest's own machinery in the child
            print(repr(error), file=sys.stderr)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_prepare_killed_anywhere_leaves_nothing_that_is_trusted(spec: RunSpec, tmp_path: Path) -> None:
    reference = prepare(spec, tmp_path / "reference")
    for call in range(1, 1000):
        cache = tmp_path / f"cache-{call}"

        def work(call: int = call, cache: Path = cache) -> None:
            die_at(call)
            prepare(spec, cache)

        code = in_child(work)
        for folder in cache.glob(f"{reference.folder.name}"):
            assert PreparedData.open(folder).verify() == []
        after = prepare(spec, cache)
        assert after.manifest == reference.manifest
        assert after.verify() == []
        left = [path.name for path in cache.iterdir() if path.name not in (after.folder.name, "hashes")]
        assert left == [], f"killed at call {call}"
        if code == 0:
            break
        assert code == KILLED
    assert call > 20


def test_every_missing_or_truncated_file_is_noticed_on_opening_and_made_again(spec: RunSpec, tmp_path: Path) -> None:
    data = prepare(spec, tmp_path)
    names = sorted(path.name for path in data.folder.iterdir())
    assert len(names) >= 6
    for name in names:
        for damage in (lambda path: path.write_bytes(path.read_bytes()[:-3]), Path.unlink):
            damage(data.folder / name)
            with pytest.raises(AnswerNo, match="prepare"):
                PreparedData.open(data.folder)
            assert prepare(spec, tmp_path).verify() == []


@pytest.mark.parametrize("at_most", [1 << 30, 0], ids=["small", "large and written to"])
def test_a_flipped_bit_in_any_file_is_found_before_the_folder_is_used_again(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_most: int
) -> None:
    monkeypatch.setattr(prepared, "VERIFY_BYTES", at_most)
    data = prepare(spec, tmp_path)
    for record in data.manifest.files:
        path = data.folder / record.path
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(AnswerNo, match=f"{record.path} has another hash"):
            PreparedData.trusted(data.folder)
        assert prepare(spec, tmp_path).verify() == [], "made anew"
        assert path.read_bytes() == good


def test_a_large_folder_that_nobody_wrote_to_is_not_read_again(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "VERIFY_BYTES", 0)
    folder = prepare(spec, tmp_path).folder
    monkeypatch.setattr(Manifest, "verify", lambda *_: pytest.fail("read"))
    assert PreparedData.trusted(folder).folder == folder


def test_a_flipped_bit_in_any_file_is_found_by_verify(spec: RunSpec, tmp_path: Path) -> None:
    data = prepare(spec, tmp_path)
    for record in data.manifest.files:
        path = data.folder / record.path
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        assert PreparedData.open(data.folder).verify() == [f"{record.path} has another hash than was written"]
        path.write_bytes(good)
    assert data.verify() == []


def test_a_changed_byte_in_the_manifest_is_noticed_on_opening(spec: RunSpec, tmp_path: Path) -> None:
    data = prepare(spec, tmp_path)
    path = data.folder / "manifest.json"
    good = path.read_text()
    path.write_text(good.replace('"documents": 31', '"documents": 32', 1))
    assert path.read_text() != good
    with pytest.raises(AnswerNo, match="is damaged"):
        PreparedData.open(data.folder)


def test_every_file_but_the_manifest_is_in_the_manifest(spec: RunSpec, tmp_path: Path) -> None:
    data = prepare(spec, tmp_path)
    listed = {record.path for record in data.manifest.files}
    assert {path.name for path in data.folder.iterdir()} == listed | {"manifest.json"}


def test_of_two_that_build_the_same_folder_the_first_to_finish_wins(tmp_path: Path) -> None:
    final = tmp_path / "digest"
    with building(final) as (first, commit_first), building(final) as (second, commit_second):
        assert first != second
        (first / "file").write_text("first")
        (second / "file").write_text("second")
        commit_second()
        commit_first()
    assert (final / "file").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["digest"]


def test_two_prepares_at_once_both_succeed(spec: RunSpec, tmp_path: Path) -> None:
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            try:
                prepare(spec, tmp_path / "cache")
                os._exit(0)
            except BaseException:  # noqa: BLE001
                os._exit(1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    assert prepare(spec, tmp_path / "cache").verify() == []


def test_a_folder_that_is_being_built_is_not_taken_for_abandoned(tmp_path: Path) -> None:
    with building(tmp_path / "a") as (first, commit), building(tmp_path / "b"):
        assert first.is_dir()
        commit()
    assert (tmp_path / "a").is_dir()


def test_without_locks_nothing_is_taken_for_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError("no locks on this file system")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with building(tmp_path / "a") as (first, _), building(tmp_path / "b"):
        assert first.is_dir()


def test_what_is_not_committed_is_removed(tmp_path: Path) -> None:
    def fail() -> None:
        with building(tmp_path / "a") as (temporary, _):
            (temporary / "file").write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_and_leaves_nothing(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: HashedFile, data: bytes) -> None:
        raise OSError(28, "No space left on device", "/somewhere")

    monkeypatch.setattr(HashedFile, "write", full)
    with pytest.raises(TrainwrightError, match="/somewhere: No space left on device; free some space"):
        prepare(spec, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["hashes"]
