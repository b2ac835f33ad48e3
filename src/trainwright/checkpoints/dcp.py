"""torch.distributed.checkpoint underneath: agreement of ranks, private copies, writing with hashes, verified reading.

The only file of this room that imports torch. Takes nested state dicts of tensors and DTensors, gives file records;
the files are those of stock DCP, so ``FileSystemReader`` reads them too. Knows no manifest protocol and no retention.
"""

from __future__ import annotations

import copy
import hashlib
import io
import os
import pickle
import warnings
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan, ReadItem
from torch.distributed.tensor import DTensor

from trainwright.checkpoints.disk import Disk, HashingStream
from trainwright.checkpoints.failures import CheckpointDamaged, CheckpointFailed, describe
from trainwright.checkpoints.format import Checkpoint, Damage, FileRecord
from trainwright.errors import did_you_mean

METADATA = ".metadata"
T = TypeVar("T")
#: A nested dict with tensors and plain values at its leaves. Any: that is what torch's state dicts are.
State = dict[str, Any]


def torch_version() -> str:
    """Version of torch, for the manifest."""
    return str(torch.__version__)


class Ranks:
    """The ranks of the job, in a gloo group of their own so that background saves never meet training's collectives.

    What fails on one rank fails on all, with the same message. A rank that dies is noticed at once, one that hangs
    after ``timeout``: nobody waits for ever. Without torch.distributed it is a group of one.
    """

    def __init__(self, timeout: timedelta):
        self._group = dist.new_group(backend="gloo", timeout=timeout) if _distributed() else None
        self.rank = dist.get_rank() if _distributed() else 0
        self.size = dist.get_world_size() if _distributed() else 1
        self.timeout = timeout

    @property
    def group(self) -> dist.ProcessGroup | None:
        """The gloo group, or None without torch.distributed."""
        return self._group

    def close(self) -> None:
        """Leave the group. Call on every rank."""
        if self._group is not None and _distributed():
            dist.destroy_process_group(self._group)
        self._group = None

    def together(self, what: str, function: Callable[[], T]) -> list[T]:
        """Run on every rank; the results of all, in order of rank. CheckpointFailed on all when it fails on any."""
        answer = self._attempt(function)
        if self._group is None:
            answers = [answer]
        else:
            answers = [answer] * self.size
            portable = (answer[0], _portable(answer[1]))
            self._collective(what, lambda: dist.all_gather_object(answers, portable, group=self._group))
        failed = {rank: error for rank, (_, error) in enumerate(answers) if error}
        if failed:
            raise agreed(what, failed, self.size) from answer[1]
        return [value for value, _ in answers]  # type: ignore[misc]  # a rank without error has a value

    def from_first(self, what: str, function: Callable[[], T]) -> T:
        """Run on rank 0; its result on every rank. CheckpointFailed on all when it fails."""
        value, error = self._attempt(function) if self.rank == 0 else (None, None)
        if self._group is not None:
            box = [(value, _portable(error))]
            self._collective(what, lambda: dist.broadcast_object_list(box, src=0, group=self._group))
            value, portable = box[0]
            error = error or portable
        if error:
            raise agreed(what, {0: error}, self.size) from error
        return value  # type: ignore[return-value]  # rank 0 had no error

    @staticmethod
    def _attempt(function: Callable[[], T]) -> tuple[T | None, Exception | None]:
        try:
            return function(), None
        except Exception as error:  # noqa: BLE001 - whatever it is, the other ranks must hear of it
            return None, error

    def _collective(self, what: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except (RuntimeError, dist.DistError) as error:
            raise CheckpointFailed(
                f"{what}: another rank died or did not answer within {self.timeout} ({describe(error)})",
                "look for the first failing rank's log; checkpoints saved before are untouched",
            ) from error


def agreed(what: str, failed: Mapping[int, BaseException], size: int) -> CheckpointFailed:
    """One error for all ranks, naming each failing rank and its reason."""
    reasons: dict[str, list[int]] = {}
    for rank, error in sorted(failed.items()):
        reasons.setdefault(describe(error), []).append(rank)
    text = "; ".join(
        reason if size == 1 else f"rank {', '.join(map(str, ranks))}: {reason}" for reason, ranks in reasons.items()
    )
    return CheckpointFailed(f"{what} failed: {text}", causes=failed.values())


class PrivateCopy:
    """Host memory for copies of a state, kept from one save to the next so that pages are touched only once.

    Only one save may use it at a time.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, ...], torch.Tensor] = {}

    def take(self, state: State) -> tuple[State, dict[int, torch.Tensor]]:
        """A structure that no later step changes, and the copy of each tensor's local part by ``id`` of the tensor.

        Tensors stay in the structure for their shapes and placements; their data is read from the copies alone.
        """
        copies: dict[int, torch.Tensor] = {}
        structure = _map_leaves(state, (), lambda path, leaf: self._leaf(path, leaf, copies))
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()  # the copies were queued without blocking
        return structure, copies

    def _leaf(self, path: tuple[str, ...], leaf: Any, copies: dict[int, torch.Tensor]) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return copy.deepcopy(leaf)
        # A fresh handle: the same tensor may stand at two places, and its id must stay taken while the save runs.
        handle = leaf.detach()
        local = _local(handle)
        buffer = self._buffers.get(path)
        if buffer is None or buffer.shape != local.shape or buffer.dtype != local.dtype:
            buffer = torch.empty(local.shape, dtype=local.dtype, pin_memory=local.is_cuda)
            self._buffers[path] = buffer
        buffer.copy_(local, non_blocking=local.device.type != "cpu")
        copies[id(handle)] = buffer
        return handle


def write(
    folder: Path, state: State, copies: Mapping[int, torch.Tensor], ranks: Ranks, disk: Disk, what: str
) -> list[FileRecord]:
    """Write this rank's part of a state into an existing folder; the records of the files that it wrote, synced.

    ``copies`` holds private data of tensors by ``id``; tensors that are not in it are read directly. Collective:
    CheckpointFailed, beginning with ``what``, on every rank when one fails.
    """
    writer = FileSystemWriter(
        folder, sync_files=False, overwrite=False, per_thread_copy_ahead=0 if copies else 10_000_000
    )
    files = HashingFileSystem(disk)
    writer.fs = files
    with _dcp_errors(what, ranks), _without_crc32():
        dcp.save(
            state,
            storage_writer=writer,
            planner=_CopiesPlanner(copies),
            process_group=ranks.group,
            no_dist=ranks.group is None,
        )
    return list(files.records.values())


def read(checkpoint: Checkpoint, state: State, ranks: Ranks) -> None:
    """Load a verified checkpoint into the tensors of ``state``, whatever layout either was made with. Collective.

    Names, types and shapes must agree both ways within each top-level section that ``state`` has: a tensor that would
    keep its random values, or saved values that no rank takes, are errors, all listed at once. Ranks may hold
    different tensors: those of a pipeline's stages.
    """
    reader = _VerifiedReader(checkpoint)
    what = f"loading {checkpoint.folder.name}"
    ranks.together(what, reader.open)
    wanted = set().union(*ranks.together(what, lambda: _names(state)))
    with _dcp_errors(what, ranks):
        dcp.load(
            state,
            storage_reader=reader,
            planner=_StrictLoadPlanner(wanted),
            process_group=ranks.group,
            no_dist=ranks.group is None,
        )


class HashingFileSystem(FileSystem):  # type: ignore[misc]  # torch is not typed here
    """DCP's file system, with every new file written through a HashingStream and every name through the Disk."""

    def __init__(self, disk: Disk):
        self._disk = disk
        self.records: dict[str, FileRecord] = {}

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[Any, None, None]:
        """A hashing stream for writing; the plain file for reading."""
        if mode != "wb":
            with super().create_stream(path, mode) as plain:
                yield plain
            return
        stream = HashingStream(self._disk, Path(path))
        try:
            yield stream
            stream.close()
        except RuntimeError as error:
            if stream.refusal is not None:
                raise stream.refusal from error
            raise
        finally:
            stream.abandon()
        self.records[Path(path).name] = stream.record()

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Rename a file; its record follows."""
        self._disk.rename(Path(path), Path(new_path))
        record = self.records.pop(Path(path).name)
        self.records[Path(new_path).name] = FileRecord(Path(new_path).name, record.bytes, record.sha256)


class _CopiesPlanner(DefaultSavePlanner):  # type: ignore[misc]
    """Plans by the live tensors' shapes and placements, and takes their data from private copies."""

    def __init__(self, copies: Mapping[int, torch.Tensor]):
        super().__init__()
        self._copies = copies

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The copy of a tensor's local part, or the object itself."""
        found = self._copies.get(id(self.state_dict.get(index.fqn)))
        return super().lookup_object(index) if found is None else found


class _StrictLoadPlanner(DefaultLoadPlanner):  # type: ignore[misc]
    """Refuses partial loads with the whole list of what does not fit, and unpickles nothing but plain values.

    ``wanted`` are the names that any rank loads.
    """

    def __init__(self, wanted: Collection[str]):
        super().__init__()
        self._wanted = wanted

    def create_local_plan(self) -> LoadPlan:
        """Check names, types and shapes, then plan as usual."""
        problems = misfits(self.state_dict, self.metadata, self._wanted)
        if problems:
            raise ValueError("the checkpoint does not fit this model: " + "; ".join(problems))
        return super().create_local_plan()

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Read a value that is no tensor, without the power to run code."""
        plain = torch.load(value, weights_only=True)
        super().load_bytes(read_item, _saved(plain))


class _VerifiedReader(FileSystemReader):  # type: ignore[misc]
    """Holds ``.metadata``, which is a pickle, against the manifest before a byte of it is interpreted."""

    def __init__(self, checkpoint: Checkpoint):
        super().__init__(checkpoint.folder)
        self._checkpoint = checkpoint
        self._metadata: Metadata

    def open(self) -> None:
        """Read the metadata. CheckpointDamaged when its bytes are not those of the manifest."""
        expected = {record.path: record.sha256 for record in self._checkpoint.manifest.files}.get(METADATA)
        data = (self._checkpoint.folder / METADATA).read_bytes()
        if hashlib.sha256(data).hexdigest() != expected:
            raise CheckpointDamaged(self._checkpoint.folder, [Damage(METADATA, "is not what the manifest lists")])
        self._metadata = pickle.loads(data)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The metadata that ``open`` verified."""
        self._metadata.storage_meta.load_id = self.load_id
        return self._metadata


def misfits(state: Mapping[str, Any], metadata: Metadata, wanted: Collection[str] = ()) -> list[str]:
    """How a flat state and a checkpoint differ in names, types and shapes, in the sections of ``state``.

    ``wanted`` are names that other ranks load.
    """
    saved = metadata.state_dict_metadata
    sections = {name.partition(".")[0] for name in state}
    missing = sorted(set(state) - set(saved))
    extra = sorted(name for name in set(saved) - set(state) - set(wanted) if name.partition(".")[0] in sections)
    problems = [
        f"{name} is not in it, {did_you_mean(name, extra)}" if extra else f"{name} is not in it"
        for name in missing[:10]
    ]
    problems += [f"{len(missing) - 10} more are not in it"] if len(missing) > 10 else []
    problems += [f"{name} is in it but not in the model" for name in extra[:10]]
    problems += [f"{len(extra) - 10} more are in it but not in the model"] if len(extra) > 10 else []
    for name in sorted(set(state) & set(saved)):
        ours, theirs = state[name], saved[name]
        there, here = _kind(theirs), _kind(ours)
        if there != here:
            problems.append(f"{name} is {there} in it and {here} in the model")
    return problems


def _names(state: State) -> set[str]:
    """Names of a nested state's leaves, as DCP makes them."""
    names: set[str] = set()
    _map_leaves(state, (), lambda path, _: names.add(".".join(path)))
    return names


def _kind(value: Any) -> str:
    """Type and global shape of a tensor or of its metadata; one word for everything that is no tensor.

    The type matters as well: copying would cast without a word, and a bf16 moment or an integer step is a bug.
    """
    if isinstance(value, TensorStorageMetadata):
        dtype, shape = value.properties.dtype, list(value.size)
    elif isinstance(value, torch.Tensor):
        dtype, shape = value.dtype, list(value.shape)
    else:
        return "a plain value"
    return f"{str(dtype).removeprefix('torch.')} {shape}"


@contextmanager
def _dcp_errors(what: str, ranks: Ranks) -> Generator[None, None, None]:
    """Turn DCP's exceptions, which carry a traceback of every rank, into one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            yield
    except CheckpointException as error:
        failed = {rank: reason for rank, (reason, _) in error.failures.items()}
        raise agreed(what, failed, ranks.size) from error
    except (RuntimeError, dist.DistError) as error:
        raise CheckpointFailed(
            f"{what}: another rank died or did not answer within {ranks.timeout} ({describe(error)})",
            "look for the first failing rank's log; checkpoints saved before are untouched",
        ) from error


@contextmanager
def _without_crc32() -> Generator[None, None, None]:
    """Spare torch.save its CRC-32 of every tensor, which pays for 40 % of the sha256 (4.2 and 1.8 GB/s a core here).

    torch.load does not look at it. The switch is torch's, for the whole process, so a ``torch.save`` elsewhere at the
    same moment may lack it too.
    """
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        yield
    finally:
        torch.serialization.set_crc32_options(before)


def _distributed() -> bool:
    return bool(dist.is_available() and dist.is_initialized())


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _map_leaves(value: Any, path: tuple[str, ...], leaf: Callable[[tuple[str, ...], Any], Any]) -> Any:
    """A copy of nested dicts, lists and tuples with every leaf replaced."""
    if isinstance(value, Mapping):
        return {key: _map_leaves(inner, (*path, str(key)), leaf) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_map_leaves(inner, (*path, str(at)), leaf) for at, inner in enumerate(value))
    return leaf(path, value)


def _saved(value: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def _portable(error: Exception | None) -> Exception | None:
    """An error that another process can surely unpickle: the system's own, or the description of any other."""
    return error if error is None or isinstance(error, OSError) else CheckpointFailed(describe(error))
