from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from trainwright.data.sources import find, glob_pattern, walk
from trainwright.errors import InputError
from trainwright.spec.model import Source


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("some text\n")
    return root


def names(path: Path, **fields: Any) -> tuple[str, list[str]]:
    found = find(Source(path=str(path), **fields), "data.sources.0", path)
    return found.format, [file.name for file in found.files]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "deep/down/a.py", True),
        ("**/*.py", "a.py", True),
        ("**/*.py", "deep/down/a.py", True),
        ("deep/*.py", "deep/a.py", True),
        ("deep/*.py", "deep/down/a.py", False),
        ("deep/**", "deep/down/a.py", True),
        ("**/test/**", "x/test/a.py", True),
        ("**/test/**", "x/tests/a.py", False),
        ("a?.txt", "ab.txt", True),
        ("a[0-9].txt", "a1.txt", True),
        ("a[!0-9].txt", "a1.txt", False),
        ("a.txt", "abtxt", False),
        ("a+b.txt", "a+b.txt", True),
    ],
)
def test_globs(pattern: str, name: str, fits: bool) -> None:
    assert bool(glob_pattern(pattern).fullmatch(name)) is fits


def test_a_single_file_is_taken_whatever_its_suffix(tmp_path: Path) -> None:
    tree(tmp_path, "notes.weird")
    assert names(tmp_path / "notes.weird") == ("text", ["notes.weird"])


def test_the_suffix_of_a_file_says_its_format(tmp_path: Path) -> None:
    tree(tmp_path, "a.jsonl", "b.ndjson", "c.jsonl.gz", "d.parquet", "e.txt")
    found = {name: names(tmp_path / name)[0] for name in ("a.jsonl", "b.ndjson", "c.jsonl.gz", "d.parquet", "e.txt")}
    assert list(found.values()) == ["jsonl", "jsonl", "jsonl", "parquet", "text"]


def test_a_folder_gives_its_rows_and_not_the_readme_beside_them(tmp_path: Path) -> None:
    tree(tmp_path, "README.md", "data/b.jsonl", "data/a.jsonl")
    assert names(tmp_path) == ("jsonl", ["data/a.jsonl", "data/b.jsonl"])


def test_a_format_given_by_hand_wins(tmp_path: Path) -> None:
    tree(tmp_path, "README.md", "a.jsonl")
    assert names(tmp_path, format="text") == ("text", ["README.md"])


def test_include_and_exclude_choose_files(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "x/b.py", "x/test/c.py", "d.c")
    assert names(tmp_path, include=["**/*.py"], exclude=["**/test/**"]) == ("text", ["a.py", "x/b.py"])


def test_hidden_files_are_left_out_and_links_are_followed_once(tmp_path: Path) -> None:
    tree(tmp_path / "root", "a.txt", ".hidden.txt", ".git/b.txt")
    tree(tmp_path / "other", "c.txt")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "root" / "loop").symlink_to(tmp_path / "root")
    (tmp_path / "root" / "dangling.txt").symlink_to(tmp_path / "nowhere")
    (tmp_path / "root" / "itself.txt").symlink_to("itself.txt")
    assert [name for name, _ in walk(tmp_path / "root")] == ["a.txt", "link/c.txt"]


def test_a_glob_may_be_the_path(tmp_path: Path) -> None:
    tree(tmp_path, "x/a.jsonl", "x/b.jsonl", "x/c.txt")
    assert names(tmp_path / "x" / "*.jsonl") == ("jsonl", ["a.jsonl", "b.jsonl"])


def test_a_dataset_folder_is_recognised_and_its_train_split_taken(tmp_path: Path) -> None:
    tree(tmp_path, "train/data-0.arrow", "train/state.json", "train/dataset_info.json", "test/data-0.arrow")
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert names(tmp_path) == ("dataset", ["data-0.arrow"])


def test_a_dataset_folder_without_a_train_split_names_its_splits(tmp_path: Path) -> None:
    tree(tmp_path, "dev/data-0.arrow")
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["dev"]}))
    with pytest.raises(InputError, match=r"has no split named train; name one of .*/dev"):
        names(tmp_path)


def test_text_beyond_the_limit_is_not_even_listed(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt", "b.txt", "c.txt")  # 10 bytes each
    assert names(tmp_path, limit="15B") == ("text", ["a.txt", "b.txt"])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"include": ["*.nothing"]}, "none of its 2 files fits include and exclude"),
        ({"format": "parquet"}, r"has no parquet file \(.parquet\); set include, such as"),
    ],
)
def test_when_no_file_is_left_the_error_says_why(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    tree(tmp_path, "a.xyz", "b.xyz")
    with pytest.raises(InputError, match=says):
        names(tmp_path, **fields)


def test_a_missing_path_suggests_its_neighbour(tmp_path: Path) -> None:
    tree(tmp_path, "train.jsonl")
    with pytest.raises(InputError, match=r"no such file or folder.*did you mean train.jsonl"):
        names(tmp_path / "trian.jsonl")


def test_what_has_no_end_is_no_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(InputError, match="is neither a file nor a folder"):
        names(tmp_path / "pipe.jsonl")


def test_a_name_that_cannot_be_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        names(tmp_path / ("x" * 5000))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no files"):
        names(tmp_path)
