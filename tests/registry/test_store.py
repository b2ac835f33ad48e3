"""The registry folder: a version is whole or not there, numbers are never shared, aliases move in one step."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from trainwright.checkpoints.disk import Disk
from trainwright.errors import InputError, SystemUnreachable
from trainwright.registry.store import Incoming, Registry
from trainwright.registry.version import MANIFEST, Record, VersionDamaged

DIED = 77


def fill(incoming: Incoming) -> None:
    incoming.write("config.json", b'{"model_type": "llama"}')
    incoming.write("run/spec.yaml", b"name: quickstart\n")
    incoming.write("model.safetensors", bytes(range(256)) * 9)


def publish(registry: Registry, run: str = "quickstart-0a1b2c3d", step: int = 25, **more: Any) -> Any:
    return registry.publish("smol", run, step, fill, **more)


def test_versions_are_numbered_and_every_byte_is_proved(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    first, second = publish(registry, aliases=("latest",)), publish(registry, step=50, aliases=("latest", "best"))
    assert (first.number, second.number) == (1, 2)
    assert registry.names() == ["smol"]
    assert registry.aliases("smol") == {"best": 2, "latest": 2}
    assert registry.open("smol") == second
    assert registry.open("smol", 1) == first
    assert {record.path for record in first.record.files} == {"config.json", "run/spec.yaml", "model.safetensors"}
    assert first.verify() == []
    assert (tmp_path / "smol" / "latest" / "config.json").is_file(), "an alias is a folder that can be loaded"


def test_a_copied_tree_keeps_names_and_content(tmp_path: Path) -> None:
    (tmp_path / "export" / "adapter").mkdir(parents=True)
    (tmp_path / "export" / "adapter" / "a.bin").write_bytes(b"a" * 3_000_000)
    (tmp_path / "export" / "b.txt").write_text("b")
    version = Registry(tmp_path / "registry").publish(
        "m", "r-00000000", 1, lambda incoming: incoming.copy_tree(tmp_path / "export")
    )
    assert (version.folder / "adapter" / "a.bin").read_bytes() == b"a" * 3_000_000
    assert version.verify() == []


@pytest.mark.parametrize("path", ["config.json", "run/spec.yaml", "model.safetensors", MANIFEST])
def test_a_flipped_bit_anywhere_is_seen_on_opening(tmp_path: Path, path: str) -> None:
    registry = Registry(tmp_path)
    file = publish(registry).folder / path
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(VersionDamaged, match=path.replace(".", r"\.")):
        registry.open("smol", 1)


def test_missing_and_foreign_files_are_damage(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    version = publish(registry)
    (version.folder / "config.json").unlink()
    (version.folder / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(VersionDamaged) as caught:
        registry.open("smol", 1)
    assert [str(damage) for damage in caught.value.damage] == [
        "config.json is missing", "pytorch_model.bin is not in the manifest",
    ]  # fmt: skip


def test_a_manifest_cannot_name_files_outside_its_folder() -> None:
    from trainwright.checkpoints.format import FileRecord

    text = Record("m", "r-00000000", 1, "2026-01-01T00:00:00+00:00", (FileRecord("../x", 1, "0" * 64),)).encode()
    with pytest.raises(ValueError, match="outside the folder"):
        Record.decode(text)


def test_the_version_of_a_run_is_found_again_unless_it_is_damaged(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    version = publish(registry)
    assert registry.of_run("smol", "quickstart-0a1b2c3d", 25) == version
    assert registry.of_run("smol", "quickstart-0a1b2c3d", 26) is None
    (version.folder / "config.json").write_text("{}")
    assert registry.of_run("smol", "quickstart-0a1b2c3d", 25) is None


def test_an_alias_can_be_moved_back_by_hand(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    publish(registry)
    publish(registry, aliases=("latest",))
    registry.point("smol", "production", 2)
    registry.point("smol", "production", 1)
    assert registry.aliases("smol") == {"latest": 2, "production": 1}


def test_what_is_not_there_is_an_input_error_with_the_nearest_name(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    with pytest.raises(InputError, match="has no model smol; `trainwright register RUN`"):
        registry.open("smol")
    publish(registry, aliases=("latest",))
    with pytest.raises(InputError, match=r"has no model smoll; did you mean smol\?"):
        registry.open("smoll")
    with pytest.raises(InputError, match=r"has no version lates; did you mean latest\?"):
        registry.open("smol", "lates")
    with pytest.raises(InputError, match="has no version 7; one of 1, latest"):
        registry.point("smol", "latest", 7)


@pytest.mark.parametrize("alias", ["3", "../up", "UPPER", "", ".hidden", "a/b"])
def test_aliases_that_could_be_taken_for_something_else_are_refused(tmp_path: Path, alias: str) -> None:
    with pytest.raises(InputError, match="is no alias"):
        publish(Registry(tmp_path), aliases=(alias,))
    assert Registry(tmp_path).numbers("smol") == []


@pytest.mark.parametrize("name", ["../smol", "/tmp/smol", "Smol", ""])
def test_names_stay_inside_the_registry(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is no name of a model"):
        Registry(tmp_path).publish(name, "r-00000000", 1, fill)
    with pytest.raises(InputError, match="is no name of a model"):
        Registry(tmp_path).open(name)


def test_failing_half_way_leaves_nothing(tmp_path: Path) -> None:
    def failing(incoming: Incoming) -> None:
        fill(incoming)
        raise RuntimeError("no more")

    registry = Registry(tmp_path)
    with pytest.raises(RuntimeError, match="no more"):
        registry.publish("smol", "r-00000000", 1, failing)
    assert list((tmp_path / "smol").iterdir()) == []
    assert registry.names() == []


class DyingDisk(Disk):
    """Ends the process at the k-th call that changes the disk, before or after it is done."""

    def __init__(self, last: int, after: bool):
        self.left, self.after = last, after

    def _count(self, call: Any, *args: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            os._exit(DIED)
        result = call(*args)
        if self.left == 0:
            os._exit(DIED)
        return result

    def create(self, path: Path) -> int:
        return int(self._count(super().create, path))

    def write(self, descriptor: int, data: memoryview) -> int:
        return int(self._count(super().write, descriptor, data))

    def sync(self, descriptor: int) -> None:
        self._count(super().sync, descriptor)

    def sync_folder(self, folder: Path) -> None:
        self._count(super().sync_folder, folder)

    def rename(self, source: Path, target: Path) -> None:
        self._count(super().rename, source, target)

    def make_folder(self, folder: Path) -> None:
        self._count(super().make_folder, folder)


def _exit_code_of(child: Any) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            child()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_call_there_is_a_whole_version_or_none(tmp_path: Path, after: bool) -> None:
    killed = 0
    for last in range(1, 100):
        root = tmp_path / str(last)
        Registry(root).publish("smol", "r-00000000", 1, fill, ("latest",))
        code = _exit_code_of(
            lambda root=root, last=last: publish(Registry(root, DyingDisk(last, after)), aliases=("latest",))
        )
        registry = Registry(root)
        whole = registry.numbers("smol")
        assert whole in ([1], [1, 2])
        for number in whole:
            assert registry.open("smol", number).verify() == []
        assert registry.open("smol", "latest").number in whole
        third = publish(registry, aliases=("latest",))
        assert third.number == len(whole) + 1
        assert registry.aliases("smol")["latest"] == third.number
        left = (
            {path.name for path in (root / "smol").iterdir()}
            - {"latest", ".lock"}
            - set(map(str, [*whole, third.number]))
        )
        assert left == set(), "the next registration clears what a killed one left"
        if code != DIED:
            break
        killed += 1
    assert killed > 10, "the loop must have died inside the registration"
    assert code == 0


def _register(root: str, start: Any, answers: Any) -> None:
    start.wait()
    answers.put(publish(Registry(Path(root)), run=f"r-{os.getpid():08x}", aliases=("latest",)).number)


def test_registrations_at_once_get_a_version_each(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start, answers = context.Event(), context.Queue()
    processes = [context.Process(target=_register, args=(str(tmp_path), start, answers)) for _ in range(6)]
    for process in processes:
        process.start()
    start.set()
    numbers = sorted(answers.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    assert numbers == [1, 2, 3, 4, 5, 6]
    registry = Registry(tmp_path)
    assert registry.aliases("smol") == {"latest": 6}
    assert len({registry.open("smol", number).record.run_id for number in numbers}) == 6


def test_a_registry_that_cannot_be_written_says_so_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "registry").write_text("a file where the folder should be")
    with pytest.raises(SystemUnreachable, match="cannot be written") as caught:
        Registry(tmp_path / "registry").refuse_unwritable("smol")
    assert "--registry" in str(caught.value.way_out)


def test_asking_whether_a_registry_can_be_written_leaves_nothing(tmp_path: Path) -> None:
    Registry(tmp_path).refuse_unwritable("smol")
    assert list((tmp_path / "smol").iterdir()) == []
    assert Registry(tmp_path).names() == []
