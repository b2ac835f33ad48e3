"""The manifest, folder names and what may be deleted: values only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainwright.checkpoints.format import (
    FileRecord,
    Manifest,
    ManifestError,
    folder_name,
    is_temporary,
    open_checkpoint,
    step_folders,
    step_of,
)
from trainwright.checkpoints.retention import surplus
from trainwright.models.layout import Layout

MANIFEST = Manifest(
    step=12,
    samples=96,
    tokens=4096,
    attempt=3,
    layout=Layout(dp_replicate=2, dp_shard=2, zero=3),
    framework="dcp",
    versions={"torch": "2.13.0"},
    spec_sha256="5" * 64,
    files=(FileRecord(".metadata", 7, "a" * 64), FileRecord("__0_0.distcp", 9, "b" * 64)),
)


def test_a_manifest_reads_back_as_it_was_written() -> None:
    assert Manifest.decode(MANIFEST.encode()) == MANIFEST
    without_layout = replace(MANIFEST, layout=None)
    assert Manifest.decode(without_layout.encode()) == without_layout


def test_every_single_flipped_bit_of_a_manifest_is_refused_or_harmless() -> None:
    text, refused = MANIFEST.encode(), 0
    for position in range(len(text)):
        for bit in range(8):
            flipped = bytearray(text)
            flipped[position] ^= 1 << bit
            try:
                assert Manifest.decode(bytes(flipped)) == MANIFEST
            except ManifestError:
                refused += 1
    assert refused > 7 * len(text)


def test_every_cut_of_a_manifest_is_refused() -> None:
    text = MANIFEST.encode().rstrip()
    for length in range(len(text)):
        with pytest.raises(ManifestError):
            Manifest.decode(text[:length])


@pytest.mark.parametrize("path", ["/etc/passwd", "../step-00000001/x", "a/../../b", "", "manifest.json"])
def test_a_manifest_cannot_name_a_file_outside_its_folder(path: str) -> None:
    with pytest.raises(ManifestError, match="leaves the folder or names the manifest"):
        Manifest.decode(replace(MANIFEST, files=(FileRecord(path, 1, "a" * 64),)).encode())


def test_a_manifest_that_names_a_file_twice_is_refused() -> None:
    record = FileRecord("a", 1, "a" * 64)
    with pytest.raises(ManifestError, match="names a file twice"):
        Manifest.decode(replace(MANIFEST, files=(record, record)).encode())


def test_a_manifest_of_a_later_release_says_so() -> None:
    with pytest.raises(ManifestError, match="has version 2; this release reads version 1"):
        Manifest.decode(MANIFEST.encode().replace(b'"v": 1', b'"v": 2'))


def test_an_old_manifest_in_a_newer_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / folder_name(13)
    folder.mkdir()
    (folder / "manifest.json").write_bytes(MANIFEST.encode())
    with pytest.raises(ManifestError, match="is of step 12, but its folder is step-00000013"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step-00000012", 12),
        ("step-123456789", 123456789),
        ("step-12", None),
        ("step-000000012", None),
        ("step-00000012-backup", None),
        ("step-00000012.tmp-0123456789ab", None),
        ("my-step-00000012", None),
        ("latest", None),
    ],
)
def test_only_exact_names_are_checkpoints(name: str, step: int | None) -> None:
    assert step_of(name) == step


@pytest.mark.parametrize(
    ("name", "temporary"),
    [
        ("step-00000012.tmp-0123456789ab", True),
        ("step-00000012.old-0123456789ab", True),
        ("step-00000012.new-0123456789ab", False),
        ("step-00000012", False),
        ("step-00000012.tmp-", False),
        ("step-00000012.tmp-mine", False),
        ("step-00000012.tmp-0123456789ab.bak", False),
    ],
)
def test_only_exact_names_are_leftovers(name: str, temporary: bool) -> None:
    assert is_temporary(name) is temporary


def test_steps_are_ordered_by_number_and_not_by_name(tmp_path: Path) -> None:
    for step in (99999999, 100000000, 5):
        (tmp_path / folder_name(step)).mkdir()
    assert [step_of(path.name) for path in step_folders(tmp_path)] == [100000000, 99999999, 5]


@pytest.mark.parametrize(
    ("good", "damaged", "keep", "every", "verified", "gone"),
    [
        ([10, 20, 30], [], 2, None, 30, [10]),
        ([10, 20, 30], [], 5, None, 30, []),
        ([10, 20, 30, 40], [], 1, 20, 40, [10, 30]),
        ([10, 20, 30], [], 1, None, 20, [10]),
        ([10, 20, 40], [30], 2, None, 40, [10]),
        ([10, 40], [30], 2, None, 40, []),
        ([10, 20, 40, 50], [30], 2, None, 50, [10, 20, 30]),
        ([10, 20], [30], 1, None, 30, []),
        ([], [10], 1, None, 10, []),
    ],
    ids=[
        "beyond keep",
        "fewer than keep",
        "multiples stay",
        "newer than the verified one stays",
        "a damaged one does not count",
        "a damaged one among the kept stays",
        "a damaged one older than the kept goes",
        "nothing goes when the newest is damaged",
        "nothing good, nothing goes",
    ],
)
def test_what_may_be_deleted(
    good: list[int], damaged: list[int], keep: int, every: int | None, verified: int, gone: list[int]
) -> None:
    assert surplus(good, damaged, keep=keep, keep_every=every, verified=verified) == gone


def test_the_best_checkpoint_stays_and_does_not_count_among_the_newest() -> None:
    assert surplus([10, 20, 30, 40], [], keep=2, keep_every=None, verified=40, best=10) == [20]
    assert surplus([10, 20, 30, 40], [10], keep=2, keep_every=None, verified=40, best=99) == [10, 20]
