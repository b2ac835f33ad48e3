"""Configuration is found above the paths, means what it says, and every mistake in it has its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.errors import InputError, Problem
from trainwright.linter.configuration import find_config, read_config
from trainwright.linter.engine import Options, lint_paths
from trainwright.linter.files import load_files
from trainwright.linter.path_patterns import matches

PYPROJECT = """\
[project]
name = "x"

[tool.trainwright.lint]
select = ["TW2"]
ignore = ["TW211"]
versions = { kubernetes = "1.33" }

[tool.trainwright.lint.per-path-ignores]
"examples/**" = ["TW205"]
"""


def problems(path: Path, text: str) -> list[Problem]:
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_config(path)
    return caught.value.problems


def test_pyproject_is_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    config = read_config(tmp_path / "pyproject.toml")
    assert (config.select, config.ignore, config.versions) == (["TW2"], ["TW211"], {"kubernetes": "1.33"})
    assert config.per_path == {"examples/**": ["TW205"]}
    assert config.root == tmp_path


def test_its_own_file_has_the_same_table_without_the_prefix(tmp_path: Path) -> None:
    (tmp_path / "trainwright.toml").write_text('[lint]\nselect = ["TW1"]\n')
    assert read_config(tmp_path / "trainwright.toml").select == ["TW1"]


def test_the_nearest_file_above_all_paths_is_taken(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'no table of ours'\n")
    assert find_config([inner]) == tmp_path / "pyproject.toml"
    (tmp_path / "a" / "trainwright.toml").write_text("[lint]\n")
    assert find_config([inner]) == tmp_path / "a" / "trainwright.toml"
    assert find_config([inner, tmp_path]) == tmp_path / "pyproject.toml"


def test_the_search_ends_at_the_top_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    assert find_config([tmp_path / "repository"]) is None


def test_ignores_hold_below_their_path_only(tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, resources: {limits: {nvidia.com/gpus: 8}}}]}\n"
    for folder in ("examples", "deploy"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pod.yaml").write_text(pod)
    options = Options(select=["TW205"], per_path={"examples/**": ["TW205"]}, root=tmp_path)
    assert [f.path for f in lint_paths([tmp_path], options)] == [str(tmp_path / "deploy" / "pod.yaml")]


@pytest.mark.parametrize(
    ("pattern", "path", "answer"),
    [
        ("examples/**", "/r/examples/a/b.yaml", True),
        ("examples", "/r/examples/a/b.yaml", True),
        ("./examples/", "/r/examples/b.yaml", True),
        ("*.md", "/r/docs/a.md", True),
        ("docs/*.md", "/r/other/docs/a.md", False),
        ("examples", "/r/examples2/b.yaml", False),
        ("/elsewhere", "/r/a.yaml", False),
    ],
)
def test_patterns_match_paths_folders_and_names(pattern: str, path: str, answer: bool) -> None:
    assert matches(path, pattern, Path("/r")) is answer


def test_an_unknown_key_is_told_with_its_place_and_the_nearest(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path / "pyproject.toml", '[tool.trainwright.lint]\n\n  selct = ["TW1"]\n')
    assert (problem.line, problem.column) == (3, 3)
    assert "select" in problem.instead


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    text = (
        '[lint]\nselect = "TW1"\nignore = ["TW2055"]\nversions = { kubernetes = 1.33 }\n'
        '[lint.per-path-ignores]\n"a/**" = ["XY1"]\n[lintt]\n'
    )
    found = problems(tmp_path / "trainwright.toml", text)
    assert sorted(p.line for p in found) == [2, 3, 4, 6, 7]
    assert all(p.instead and p.column for p in found)


def test_what_is_no_toml_is_told_at_its_place(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path / "trainwright.toml", "[lint]\nselect = [\n  oops\n]\n")
    assert (problem.line, problem.column) == (3, 3)


@pytest.mark.parametrize("text", ["lint = 3", "[lint]\nper-path-ignores = 1", "[lint]\nversions = []", "[tool]\n"])
def test_wrong_types_are_problems_not_failures(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path / "trainwright.toml", text)


def test_what_is_excluded_is_passed_over_unless_it_is_named(tmp_path: Path) -> None:
    wrong = "apiVersion: v1\nkind: Namespace\nmetadata: {name: A_b}\n"
    for place in ("kept/a.yaml", "third/deep/b.yaml", "kept/c.generated.yaml"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(wrong)
    (tmp_path / "trainwright.toml").write_text('[lint]\nexclude = ["third", "*.generated.yaml"]\n')
    config = read_config(tmp_path / "trainwright.toml")
    found = [Path(file.path).relative_to(tmp_path).as_posix() for file in load_files([tmp_path], config.excludes)]
    assert found == ["kept/a.yaml"]
    named = tmp_path / "third" / "deep" / "b.yaml"
    assert [file.path for file in load_files([named], config.excludes)] == [str(named)]


@pytest.mark.parametrize("value", ['"third"', "[1]", '[""]'])
def test_exclude_is_a_list_of_patterns(tmp_path: Path, value: str) -> None:
    (only,) = problems(tmp_path / "trainwright.toml", f"[lint]\nexclude = {value}\n")
    assert (only.line, only.what) == (2, "is not a list of patterns")
