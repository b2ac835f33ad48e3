"""Whatever happens to the newest checkpoint's bytes, it is reported by name and the one before is used."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.checkpoints import dcp, resume
from trainwright.checkpoints.failures import CheckpointDamaged, CheckpointFailed
from trainwright.checkpoints.format import Checkpoint, Manifest, folder_name, open_checkpoint
from trainwright.runs.events import EventLog, read_events

from .conftest import assert_same_state, load_newest, make_state, open_manager, save_steps
from .faults import flip_bit

FILES = [".metadata", "__0_0.distcp", "__0_1.distcp", "trainer.json", "manifest.json"]
Hurt = Callable[[Path], object]


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """Checkpoints 1, 2 and 3; 3 is the one that tests hurt. Its tensors are in two files."""
    shutil.copytree(template, tmp_path / "c")
    save_steps(tmp_path / "c", 3)
    _split_data(tmp_path / "c" / folder_name(3))
    assert load_newest(tmp_path / "c")[0].step == 3
    return tmp_path / "c"


def _split_data(step: Path) -> None:
    """Add a second shard of the same size, so that two can be swapped without any size changing."""
    from dataclasses import replace

    from trainwright.checkpoints.format import FileRecord
    from trainwright.on_disk import sha256_of

    checkpoint = open_checkpoint(step)
    data = (step / "__0_0.distcp").read_bytes()
    (step / "__0_1.distcp").write_bytes(data[::-1])
    record = FileRecord("__0_1.distcp", len(data), sha256_of(step / "__0_1.distcp"))
    manifest = replace(checkpoint.manifest, files=(*checkpoint.manifest.files, record))
    (step / "manifest.json").write_bytes(manifest.encode())


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def _lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


HURTS: dict[str, Hurt] = {
    "one bit flipped at the start": lambda path: flip_bit(path, 0),
    "one bit flipped in the middle": lambda path: flip_bit(path, len(path.read_bytes()) // 2, 5),
    "one bit flipped near the end": lambda path: flip_bit(path, -3, 7),
    "cut by two bytes": _cut,
    "emptied": _empty,
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("hurt", HURTS.values(), ids=HURTS.keys())
def test_a_damaged_file_is_named_and_the_checkpoint_before_is_used(
    folder: Path, name: str, hurt: Hurt, caplog: pytest.LogCaptureFixture
) -> None:
    hurt(folder / folder_name(3) / name)
    checkpoint, state = load_newest(folder)
    assert checkpoint.step == 2
    assert_same_state(state, make_state(2))
    assert "step-00000003 is damaged" in caplog.text
    assert name in caplog.text


@pytest.mark.parametrize(("hurt", "what"), [(_lengthen, "is too long"), (_link, "is not a plain file")])
def test_other_changes_of_a_file_are_damage_too(
    folder: Path, hurt: Hurt, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    hurt(folder / folder_name(3) / "__0_0.distcp")
    assert load_newest(folder)[0].step == 2
    assert f"__0_0.distcp {what}" in caplog.text


def test_two_swapped_shards_are_damage(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, two = (folder / folder_name(3) / f"__0_{number}.distcp" for number in (0, 1))
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)
    assert load_newest(folder)[0].step == 2
    assert "__0_0.distcp was changed" in caplog.text
    assert "__0_1.distcp was changed" in caplog.text


def test_an_old_manifest_replayed_is_damage(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copy(folder / folder_name(2) / "manifest.json", folder / folder_name(3) / "manifest.json")
    assert load_newest(folder)[0].step == 2
    assert "manifest.json is of step 2, but its folder is step-00000003" in caplog.text


def test_an_old_checkpoint_under_a_newer_name_is_damage(folder: Path) -> None:
    shutil.copytree(folder / folder_name(1), folder / folder_name(9))
    assert load_newest(folder)[0].step == 3


def test_every_damaged_checkpoint_is_passed_over_until_one_is_good(folder: Path) -> None:
    (folder / folder_name(3) / "manifest.json").unlink()
    flip_bit(folder / folder_name(2) / "__0_0.distcp", 12345)
    checkpoint, state = load_newest(folder)
    assert checkpoint.step == 1
    assert_same_state(state, make_state(1))


def test_nothing_is_returned_when_nothing_is_good(folder: Path) -> None:
    for step in (1, 2, 3):
        _empty(folder / folder_name(step) / ".metadata")
    with open_manager(folder) as manager:
        assert manager.newest() is None


def test_damage_is_an_event_that_lists_every_file(folder: Path, tmp_path: Path) -> None:
    _cut(folder / folder_name(3) / "__0_0.distcp")
    (folder / folder_name(3) / "trainer.json").unlink()
    with open_manager(folder, events=EventLog(tmp_path / "events", "r", 1, 0)) as manager:
        manager.newest()
    verified = [event for event in read_events(tmp_path / "events") if event["kind"] == "verified"]
    assert [(event["step"], event["ok"]) for event in verified] == [(3, False), (2, True)]
    assert [row["path"] for row in verified[0]["damage"]] == ["__0_0.distcp", "trainer.json"]


def test_loading_a_checkpoint_that_was_damaged_since_is_refused(folder: Path) -> None:
    checkpoint = open_checkpoint(folder / folder_name(3))
    flip_bit(folder / folder_name(3) / "__0_0.distcp", 30000)
    state = make_state(0)
    with open_manager(folder) as manager, pytest.raises(CheckpointDamaged, match=r"__0_0\.distcp was changed"):
        manager.load(checkpoint, state)
    assert_same_state(state, make_state(0))


def test_no_byte_of_unverified_metadata_is_unpickled(folder: Path, tmp_path: Path) -> None:
    """Also when the file changes between verification and loading."""
    witness = tmp_path / "witness"
    with open_manager(folder) as manager:
        checkpoint = manager.newest()
        assert checkpoint is not None
        evil = f"cposix\nsystem\n(S'touch {witness}'\ntR.".encode()
        (checkpoint.folder / ".metadata").write_bytes(evil)
        with pytest.raises(Exception, match=r"\.metadata is not what the manifest lists"):
            manager.load(checkpoint, make_state(0))
    assert not witness.exists()


def test_values_that_are_no_tensors_cannot_run_code(tmp_path: Path) -> None:
    state = make_state(1)
    state["optimizer"]["param_groups"][0]["hook"] = _Touch(tmp_path / "witness")
    with open_manager(tmp_path / "c") as manager:
        manager.save(1, 1, 1, state)
        checkpoint = manager.newest()
        assert checkpoint is not None
        target = make_state(0)
        target["optimizer"]["param_groups"][0]["hook"] = None
        with pytest.raises(CheckpointFailed, match=r"Weights only load failed"):
            manager.load(checkpoint, target)
    assert not (tmp_path / "witness").exists()


class _Touch:
    def __init__(self, path: Path):
        self.path = path

    def __deepcopy__(self, memo: object) -> _Touch:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        import os

        return (os.mknod, (str(self.path),))


def test_progress_counts_every_byte(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    checkpoint = resume.newest(folder, threads=2, progress=lambda done, total: seen.append((done, total)))
    assert checkpoint is not None
    total = checkpoint.manifest.size
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_one_step_can_be_asked_for(folder: Path) -> None:
    assert resume.at_step(folder, 2).step == 2
    with pytest.raises(CheckpointDamaged, match=r"manifest\.json is missing"):
        resume.at_step(folder, 7)


def test_stock_dcp_reads_the_files(template: Path) -> None:
    import torch
    import torch.distributed.checkpoint as stock

    state = {name: section for name, section in make_state(0).items() if name != "trainer"}
    stock.load(state, checkpoint_id=str(template / folder_name(2)), no_dist=True)
    expected = make_state(2)
    torch.testing.assert_close(state["model"], expected["model"], rtol=0, atol=0)
    torch.testing.assert_close(state["optimizer"]["state"], expected["optimizer"]["state"], rtol=0, atol=0)


def test_a_checkpoint_without_metadata_in_its_manifest_is_refused(folder: Path) -> None:
    from dataclasses import replace

    step = folder / folder_name(3)
    manifest: Manifest = open_checkpoint(step).manifest
    without = replace(manifest, files=tuple(record for record in manifest.files if record.path != dcp.METADATA))
    (step / "manifest.json").write_bytes(without.encode())
    with open_manager(folder) as manager, pytest.raises(Exception, match="is not what the manifest lists"):
        manager.load(Checkpoint(step, without), make_state(0))
