"""A spec that is no regular file is refused at once, never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.spec.load import load


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.yaml")
    with pytest.raises(InputError, match="is no regular file"):
        load(tmp_path / "run.yaml")


def test_a_device_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is no regular file"):
        load(tmp_path / "run.yaml")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="directory"):
        load(tmp_path)


def test_a_file_too_large_for_a_spec_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "run.yaml").open("wb") as handle:
        handle.truncate(1 << 40)  # sparse
    with pytest.raises(InputError, match="page or two"):
        load(tmp_path / "run.yaml")
