"""Input that is broken, enormous or malicious gives findings about the file: no exception, hang or full memory."""

from __future__ import annotations

import codecs
import os
import socket
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linter.hostile import GROUPS, KEYS, KINDS, SCALARS, SHELL_WORDS, TEXTS
from trainwright.linter.engine import Options, lint_files, lint_paths, lint_texts
from trainwright.linter.files import MAX_BYTES, load_files
from trainwright.linter.finding import Finding

STRICT = Options(strict=True)
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec: {containers: [{name: a, image: a:1}]}\n"


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_makes_a_reader_or_a_rule_raise(name: str) -> None:
    for finding in lint_texts({name: TEXTS[name]}, STRICT):
        assert finding.line >= 1
        assert finding.column >= 1
        assert len(finding.quoted) <= 120


@pytest.mark.parametrize("extension", ["yaml", "json", "sh", "py", "md", "sbatch", "tpl", "toml", ""])
def test_every_text_is_harmless_under_every_name(extension: str) -> None:
    small = {name: text for name, text in TEXTS.items() if len(text) < 20_000}
    assert len(small) > 20
    for name, text in small.items():
        lint_texts({f"{name}.{extension}" if extension else name.replace(".", "-"): text}, STRICT)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("deep-map.yaml", "TW002"),
        ("deep-dashes.yaml", "TW002"),
        ("tabs.yaml", "TW001"),
        ("half.yaml", "TW001"),
        ("half.json", "TW001"),
        ("deep-list.json", "TW001"),
        ("same-keys.yaml", "TW004"),
    ],
)
def test_what_cannot_be_read_is_told(name: str, rule: str) -> None:
    assert rule in {f.rule for f in lint_texts({name: TEXTS[name]}, STRICT)}


def only(path: Path) -> Finding:
    (finding,) = lint_paths([path], STRICT)
    assert finding.path == str(path)
    return finding


def test_a_file_of_50_megabytes_is_told_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as stream:
        stream.write(b"a: b\n" * 1_000_000)
        stream.truncate(50 * 2**20)
    assert path.stat().st_size > 10 * MAX_BYTES
    path.write_bytes(b"a: bbbbb\n" * (50 * 2**20 // 9))
    assert only(path).rule == "TW002"
    (loaded,) = load_files([path])
    assert loaded.text.content == ""


def test_binary_data_is_told_where_text_is_expected(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_bytes(bytes(range(256)) * 100)
    assert only(tmp_path / "model.yaml").rule == "TW001"
    (tmp_path / "latin.sh").write_bytes(b"\xe9\xe8\xff" * 100)
    assert only(tmp_path / "latin.sh").rule == "TW001"


def test_data_among_manifests_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(range(256)) * 1_000)
    (tmp_path / "notes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "pod.yaml").write_text(POD)
    assert [file.path for file in load_files([tmp_path])] == [str(tmp_path / "pod.yaml")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_told(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "pod.yaml"
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    path.write_bytes(mark + POD.encode(encoding))
    finding = only(path)
    assert finding.rule == "TW001"
    assert encoding[:6].upper() in finding.why
    assert "UTF-8" in finding.instead


def test_a_few_bytes_that_are_no_utf8_do_not_hide_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_bytes(b"# caf\xe9\n" + POD.replace("image: a:1", "image: a:1, image: a:2").encode())
    assert {f.rule for f in lint_paths([path], STRICT)} >= {"TW004"}


def test_windows_line_ends_and_marks_move_no_line_or_column(tmp_path: Path) -> None:
    text = POD.replace("image: a:1", "image: a:1, image: a:2")
    (tmp_path / "plain.yaml").write_text(text)
    (tmp_path / "windows.yaml").write_bytes(codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode())
    found = lint_paths([tmp_path / "plain.yaml", tmp_path / "windows.yaml"], Options(select=["TW004"]))
    assert len(found) == 2
    assert len({(f.line, f.column, f.end_line, f.end_column) for f in found}) == 1


def test_windows_line_ends_in_a_script_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_bytes(b"#!/bin/bash\r\necho done\r\n")
    assert only(path).rule == "TW003"


def test_what_is_no_file_is_told_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.yaml"))
        for path in (tmp_path / "pipe.yaml", tmp_path / "socket.yaml", Path("/dev/zero"), tmp_path / "missing.yaml"):
            assert only(path).rule == "TW001"
        assert {f.path for f in lint_paths([tmp_path], STRICT)} == {
            str(tmp_path / "pipe.yaml"),
            str(tmp_path / "socket.yaml"),
        }


def test_loops_of_links_end(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "folder" / "pod.yaml").write_text(POD)
    (tmp_path / "again.yaml").symlink_to("folder/pod.yaml")
    loaded = list(load_files([tmp_path, tmp_path / "folder"]))
    assert sorted(Path(file.path).name for file in loaded) == ["again.yaml", "loop.yaml"]
    assert [f.path for f in lint_files(loaded, Options(select=["TW001"]))] == [str(tmp_path / "loop.yaml")]


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    finding = only(path)
    assert "Permission denied" in finding.why


@pytest.mark.parametrize("path", ["", "\0", "x" * 5_000, "/proc/self/mem", "a\nb.yaml"])
def test_impossible_paths_are_findings(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lint_paths([path], STRICT)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(SCALARS),
)
NAMES = st.sampled_from(KEYS.split())
TREES = st.recursive(
    VALUES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=8)),
    max_leaves=30,
)
FUZZ = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@FUZZ
@given(st.sampled_from(KINDS.split()), st.sampled_from(GROUPS.split()), TREES)
def test_any_tree_under_any_kind_is_harmless(kind: str, group: str, tree: object) -> None:
    document = {"apiVersion": group, "kind": kind, "metadata": {"name": "x"}, "spec": tree, "data": tree}
    lint_texts({"a.yaml": yaml.safe_dump(document)}, STRICT)


@FUZZ
@given(st.dictionaries(NAMES, TREES, max_size=8))
def test_any_configuration_is_harmless(tree: dict[str, object]) -> None:
    lint_texts({"a.yaml": yaml.safe_dump(tree), "ds.json": yaml.safe_dump(tree)}, STRICT)


@FUZZ
@given(st.lists(st.sampled_from(SHELL_WORDS.split(" ")), max_size=40))
def test_any_line_of_shell_is_harmless(words: list[str]) -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=2\n" + " ".join(words)
    lint_texts({"a.sbatch": script, "b.md": f"```bash\n{script}\n```\n"}, STRICT)


@FUZZ
@given(st.text(max_size=300), st.sampled_from(["a.yaml", "a.json", "a.sh", "a.py", "a.md", "a"]))
def test_any_text_is_harmless(text: str, name: str) -> None:
    lint_texts({name: text}, STRICT)


@FUZZ
@given(st.binary(max_size=300), st.sampled_from(["a.yaml", "a.sh", "a.py", "a"]))
def test_any_bytes_are_harmless(tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str) -> None:
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(data)
    lint_paths([path], STRICT)
