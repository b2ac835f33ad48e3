"""Saving in the background, failing loudly, keeping and deleting: the manager in one process."""

from __future__ import annotations

import errno
import resource
import threading
from pathlib import Path

import pytest
import torch

from trainwright.checkpoints.disk import Disk
from trainwright.checkpoints.failures import CheckpointFailed
from trainwright.checkpoints.format import folder_name, open_checkpoint, step_folders, step_of
from trainwright.checkpoints.inventory import prune
from trainwright.checkpoints.verify import verify
from trainwright.models.layout import Layout
from trainwright.runs.events import EventLog, read_events

from .conftest import assert_same_state, load_newest, make_state, open_manager, save_steps
from .faults import FailingDisk, LyingDisk


class GatedDisk(Disk):
    """Lets no file be synced before the gate opens."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def sync(self, descriptor: int) -> None:
        assert self.gate.wait(60)
        super().sync(descriptor)


def steps_in(folder: Path) -> list[int | None]:
    return [step_of(path.name) for path in step_folders(folder)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_was_saved_is_loaded(tmp_path: Path, asynchronous: bool) -> None:
    with open_manager(tmp_path, asynchronous=asynchronous, layout=Layout()) as manager:
        assert manager.save(5, 40, 160, make_state(5)) >= 0
    checkpoint, state = load_newest(tmp_path)
    manifest = checkpoint.manifest
    assert (manifest.step, manifest.samples, manifest.tokens, manifest.attempt) == (5, 40, 160, 1)
    assert manifest.layout == Layout()
    assert manifest.versions["torch"] == torch.__version__
    assert_same_state(state, make_state(5))


def test_an_empty_folder_has_no_newest(tmp_path: Path) -> None:
    with open_manager(tmp_path / "not" / "there") as manager:
        assert manager.newest() is None


def test_the_manifest_lists_every_file_with_its_hash_and_size(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    folder = tmp_path / folder_name(1)
    checkpoint = open_checkpoint(folder)
    listed = {record.path for record in checkpoint.manifest.files}
    assert listed == {path.name for path in folder.iterdir()} - {"manifest.json"}
    assert verify(checkpoint) == []


def test_a_background_save_stores_the_state_of_the_call(tmp_path: Path) -> None:
    disk = GatedDisk()
    state = make_state(1)
    with open_manager(tmp_path, disk=disk) as manager:
        manager.save(1, 1, 1, state)
        state["model"]["w"].fill_(-1)
        state["model"]["scalar"].fill_(-1)
        for moment in state["optimizer"]["state"]["w"].values():
            moment.fill_(-1)
        state["optimizer"]["param_groups"][0]["lr"] = -1
        state["trainer"]["samples"] = -1
        disk.gate.set()
    assert_same_state(load_newest(tmp_path)[1], make_state(1))


def test_the_private_copy_of_the_next_save_does_not_spoil_the_one_in_flight(tmp_path: Path) -> None:
    with open_manager(tmp_path, keep=9) as manager:
        for step in range(1, 6):
            manager.save(step, step, step, make_state(step))
    with open_manager(tmp_path) as manager:
        for path in step_folders(tmp_path):
            state = make_state(0)
            manager.load(open_checkpoint(path), state)
            assert_same_state(state, make_state(float(step_of(path.name) or 0)))


def test_tensors_that_share_memory_are_both_stored(tmp_path: Path) -> None:
    weight = torch.arange(12.0).reshape(3, 4)
    state = {"model": {"embedding": weight, "head": weight, "turned": weight.t()}, "optimizer": {}, "trainer": {}}
    with open_manager(tmp_path) as manager:
        manager.save(1, 1, 1, state)
        weight.zero_()
        checkpoint = manager.newest()
        assert checkpoint is not None
        loaded = {"model": {name: torch.zeros(tensor.shape) for name, tensor in state["model"].items()}}
        manager.load(checkpoint, loaded)
    expected = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(loaded["model"]["embedding"], expected)
    assert torch.equal(loaded["model"]["head"], expected)
    assert torch.equal(loaded["model"]["turned"], expected.t())


def test_only_one_save_is_in_flight(tmp_path: Path) -> None:
    disk = GatedDisk()
    with open_manager(tmp_path, disk=disk) as manager:
        manager.save(1, 1, 1, make_state(1))
        second = threading.Thread(target=manager.save, args=(2, 2, 2, make_state(2)))
        second.start()
        second.join(0.2)
        assert second.is_alive(), "the second save waits for the first"
        assert not [path.name for path in tmp_path.iterdir() if path.name.startswith("step-00000002")]
        disk.gate.set()
        second.join()
    assert steps_in(tmp_path) == [2, 1]


def test_waiting_commits_before_returning(tmp_path: Path) -> None:
    with open_manager(tmp_path) as manager:
        manager.save(1, 1, 1, make_state(1), wait=True)
        assert verify(open_checkpoint(tmp_path / folder_name(1))) == []


def test_a_step_just_saved_is_not_saved_again(tmp_path: Path) -> None:
    events = EventLog(tmp_path / "events", "r", 1, 0)
    with open_manager(tmp_path / "c", events=events) as manager:
        manager.save(1, 1, 1, make_state(1))
        manager.save(1, 1, 1, make_state(1), wait=True)
    assert [event["step"] for event in read_events(tmp_path / "events") if event["kind"] == "saved"] == [1]


def test_what_was_loaded_is_not_saved_again(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    before = (tmp_path / folder_name(1)).stat().st_ino
    with open_manager(tmp_path, spec_sha256="cd" * 32) as manager:
        state = make_state(0)
        manager.load(open_checkpoint(tmp_path / folder_name(1)), state)
        manager.save(1, 1, 1, state, wait=True)
    assert (tmp_path / folder_name(1)).stat().st_ino == before


def test_a_step_that_was_loaded_in_part_or_from_elsewhere_is_saved(tmp_path: Path) -> None:
    save_steps(tmp_path / "there", 1)
    for name, sections in (("other", ("model", "optimizer", "trainer")), ("there", ("model",))):
        with open_manager(tmp_path / name, spec_sha256="cd" * 32) as manager:
            state = make_state(0)
            manager.load(
                open_checkpoint(tmp_path / "there" / folder_name(1)), {part: state[part] for part in sections}
            )
            manager.save(1, 1, 1, make_state(7), wait=True)
        assert load_newest(tmp_path / name)[1]["trainer"] == {"samples": 7}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_best_checkpoint_stays_however_old_it_is(tmp_path: Path, asynchronous: bool) -> None:
    with open_manager(tmp_path, keep=2, asynchronous=asynchronous) as manager:
        for step, best in ((10, 10), (20, 20), (30, 20), (40, 20), (50, 20)):
            manager.save(step, step, step, make_state(step), best=best)
    assert steps_in(tmp_path) == [50, 40, 20]
    assert open_checkpoint(tmp_path / folder_name(50)).manifest.best == 20


def test_pruning_keeps_the_best_checkpoint_too(tmp_path: Path) -> None:
    with open_manager(tmp_path, keep=9) as manager:
        for step in (10, 20, 30, 40):
            manager.save(step, step, step, make_state(step), best=20)
    assert prune(tmp_path, keep=1, dry_run=True).steps == (10, 30)
    assert prune(tmp_path, keep=1).steps == (10, 30)
    assert steps_in(tmp_path) == [40, 20]


def test_pruning_puts_back_what_a_crash_left_aside_and_does_not_count_it_as_litter(tmp_path: Path) -> None:
    save_steps(tmp_path, 1, 2)
    (tmp_path / folder_name(1)).rename(tmp_path / f"{folder_name(1)}.old-0123456789ab")
    assert prune(tmp_path, keep=2).leftovers == ()
    assert steps_in(tmp_path) == [2, 1]


@pytest.mark.parametrize("call", ["save", "newest", "finish"])
def test_a_failed_background_save_is_raised_by_the_next_call(tmp_path: Path, call: str) -> None:
    save_steps(tmp_path, 1)
    disk = FailingDisk("write", errno.EIO, "distcp")
    manager = open_manager(tmp_path, disk=disk)
    manager.save(2, 2, 2, make_state(2))
    next_call = {"save": lambda: manager.save(3, 3, 3, make_state(3)), "newest": manager.newest}
    with pytest.raises(CheckpointFailed, match=r"saving step 2 .* Input/output error \[EIO\] \(__0_0\.distcp\)"):
        next_call.get(call, manager.finish)()
    if call == "finish":
        return
    disk.broken = False
    manager.save(4, 4, 4, make_state(4))
    manager.finish()
    assert load_newest(tmp_path)[0].step == 4


FILES = ["__0_0.distcp", ".metadata", "trainer.json", "manifest.json"]


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        *((operation, name) for operation in ("create", "write", "sync") for name in FILES),
        ("rename", ".metadata"),
        ("rename", "step-00000002"),
    ],
)
def test_a_full_disk_fails_the_save_clearly_and_harms_nothing(tmp_path: Path, operation: str, name: str) -> None:
    save_steps(tmp_path, 1)
    with open_manager(tmp_path, asynchronous=False, disk=FailingDisk(operation, errno.ENOSPC, name)) as manager:
        with pytest.raises(CheckpointFailed) as failure:
            manager.save(2, 2, 2, make_state(2))
        assert "No space left on device [ENOSPC]" in failure.value.message
        assert "lower checkpoint.keep" in failure.value.way_out
        assert "MiB are free" in failure.value.way_out
        assert failure.value.exit_code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [".writer.lock", "step-00000001"]
    assert_same_state(load_newest(tmp_path)[1], make_state(1))


class FillingDisk(Disk):
    """Takes some writes to the file of tensors, and then no more."""

    def __init__(self, writes: int):
        self.left = writes

    def write(self, descriptor: int, data: memoryview) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(descriptor, data)


def test_a_disk_that_fills_in_the_middle_of_a_tensor_is_named_not_torchs_confusion(tmp_path: Path) -> None:
    state = {**make_state(2), "model": {f"w{number}": torch.zeros(64, 1024) for number in range(8)}}
    with (
        open_manager(tmp_path, asynchronous=False, disk=FillingDisk(1)) as manager,
        pytest.raises(CheckpointFailed) as failure,
    ):
        manager.save(2, 2, 2, state)
    assert "No space left on device [ENOSPC]" in failure.value.message
    assert "enforce fail" not in str(failure.value)
    assert "lower checkpoint.keep" in failure.value.way_out


def test_a_real_file_size_limit_fails_the_save_clearly_and_harms_nothing(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_manager(tmp_path, asynchronous=False) as manager:
        resource.setrlimit(resource.RLIMIT_FSIZE, (32768, hard))
        try:
            with pytest.raises(CheckpointFailed, match=r"File too large \[EFBIG\]"):
                manager.save(2, 2, 2, make_state(2))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        manager.save(3, 3, 3, make_state(3))
    assert steps_in(tmp_path) == [3, 1]
    assert_same_state(load_newest(tmp_path)[1], make_state(3))


def test_a_failed_save_is_an_event(tmp_path: Path) -> None:
    events = EventLog(tmp_path / "events", "r", 1, 0)
    with (
        open_manager(
            tmp_path / "c", asynchronous=False, events=events, disk=FailingDisk("sync", errno.EIO)
        ) as manager,
        pytest.raises(CheckpointFailed),
    ):
        manager.save(2, 2, 2, make_state(2))
    (event,) = read_events(tmp_path / "events")
    assert (event["kind"], event["class"], event["step"]) == ("failed", "checkpoint", 2)
    assert "Input/output error" in event["exception"]


def test_a_state_that_cannot_be_saved_is_an_error_and_not_a_crash_of_the_manager(tmp_path: Path) -> None:
    with open_manager(tmp_path) as manager:
        manager.save(1, 1, 1, {**make_state(1), "trainer": {"loss": float("nan")}})
        with pytest.raises(CheckpointFailed, match="saving step 1"):
            manager.newest()


def test_the_newest_k_and_every_nth_are_kept(tmp_path: Path) -> None:
    save_steps(tmp_path, *range(1, 11), keep=2, keep_every=4)
    assert steps_in(tmp_path) == [10, 9, 8, 4]


def test_nothing_is_deleted_before_a_newer_one_verifies(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = LyingDisk()
    with open_manager(tmp_path, keep=1, disk=disk, asynchronous=False) as manager:
        manager.save(1, 1, 1, make_state(1))
        disk.lies = True
        manager.save(2, 2, 2, make_state(2))
        manager.save(3, 3, 3, make_state(3))
    assert steps_in(tmp_path) == [3, 2, 1]
    assert "step-00000003 is damaged" in caplog.text
    assert load_newest(tmp_path)[0].step == 1
    save_steps(tmp_path, 4, keep=1)
    assert steps_in(tmp_path) == [4]


def test_a_checkpoint_that_is_known_to_be_damaged_does_not_count_as_kept(tmp_path: Path) -> None:
    save_steps(tmp_path, 1, 2)
    with open_manager(tmp_path, keep=2) as manager:
        data = tmp_path / folder_name(2) / "__0_0.distcp"
        data.write_bytes(data.read_bytes()[::-1])
        newest = manager.newest()
        assert newest is not None
        assert newest.step == 1
        manager.save(3, 3, 3, make_state(3))
    assert steps_in(tmp_path) == [3, 2, 1], "two good ones stay, 2 is not one of them"


def test_a_checkpoint_that_cannot_be_deleted_does_not_stop_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_steps(tmp_path, 1, 2, keep=1, disk=FailingDisk("rename", errno.EPERM, "step-00000001.tmp"))
    assert steps_in(tmp_path) == [2, 1]
    assert "step 1 could not be deleted" in caplog.text


def test_every_name_and_shape_that_does_not_fit_is_listed(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    state = make_state(0)
    state["model"]["weight"] = state["model"].pop("w")
    state["model"]["scalar"] = torch.zeros(2, dtype=torch.float64)
    state["optimizer"]["state"]["w"]["step"] = torch.tensor(0)
    with open_manager(tmp_path) as manager:
        checkpoint = manager.newest()
        assert checkpoint is not None
        with pytest.raises(CheckpointFailed) as failure:
            manager.load(checkpoint, state)
    text = str(failure.value)
    assert "model.weight is not in it, did you mean model.w?" in text
    assert "model.w is in it but not in the model" in text
    assert "model.scalar is float64 [] in it and float64 [2] in the model" in text
    assert "optimizer.state.w.step is float32 [] in it and int64 [] in the model" in text


def test_a_part_of_the_state_can_be_loaded_alone(tmp_path: Path) -> None:
    save_steps(tmp_path, 4)
    with open_manager(tmp_path) as manager:
        checkpoint = manager.newest()
        assert checkpoint is not None
        state = {"model": make_state(0)["model"]}
        manager.load(checkpoint, state)
    torch.testing.assert_close(state["model"], make_state(4)["model"], rtol=0, atol=0)
