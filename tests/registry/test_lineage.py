"""Lineage: hashes that change when, and only when, what they stand for changes."""

from __future__ import annotations

from pathlib import Path

from trainwright.registry.lineage import base_model, code_sha256, versions
from trainwright.spec.model import Model


def test_the_code_hash_follows_names_and_contents_alone(tmp_path: Path) -> None:
    package = tmp_path / "p"
    (package / "__pycache__").mkdir(parents=True)
    (package / "a.py").write_text("x = 1\n")
    first = code_sha256(package)
    (package / "__pycache__" / "a.pyc").write_bytes(b"1")
    assert code_sha256(package) == first
    (package / "a.py").write_text("x = 2\n")
    second = code_sha256(package)
    (package / "a.py").rename(package / "b.py")
    assert len({first, second, code_sha256(package)}) == 3


def test_a_base_model_folder_is_known_by_every_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    record = base_model(Model(path=str(tmp_path)))
    assert list(record["files"]) == ["config.json"]
    (tmp_path / "config.json").write_text("{ }")
    assert base_model(Model(path=str(tmp_path)))["files"] != record["files"]
    assert base_model(Model(path="owner/name", revision="abc")) == {
        "path": "owner/name", "revision": "abc", "from_scratch": False,
    }  # fmt: skip


def test_versions_name_python_and_what_is_installed() -> None:
    assert {"python", "numpy"} <= set(versions())
