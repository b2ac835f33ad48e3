"""What a spec names and this machine does not have is told with its place in the file, before any run exists."""

from __future__ import annotations

from pathlib import Path

from trainwright.spec.load import load
from trainwright.spec.present import missing


def told(folder: Path, text: str) -> list[str]:
    path = folder / "run.yaml"
    path.write_text(text)
    return [str(problem).replace(f"{folder}/", "") for problem in missing(load(path))]


def test_paths_that_lead_nowhere_are_named_with_what_is_near(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").touch()
    (tmp_path / "model").mkdir()
    spec = "name: x\nmodel: ./modl\ndata:\n  sources:\n    - ./rows.jsnl\n    - {path: ./a/b/c}\n    - ./rows.jsonl\n"
    assert told(tmp_path, spec) == [
        "run.yaml:2:8: model.path: modl does not exist; did you mean model?",
        "run.yaml:5:7: data.sources.0.path: rows.jsnl does not exist; did you mean rows.jsonl?",
        "run.yaml:6:14: data.sources.1.path: a/b/c does not exist; paths are relative to the spec; "
        f"there is no a in {tmp_path}",
    ]


def test_addresses_hub_ids_and_globs_that_match_are_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").touch()
    spec = "name: x\nmodel: owner/name\ndata:\n  sources: [s3://bucket/x, './**/*.txt', owner/set]\n"
    assert told(tmp_path, spec) == []
    assert len(told(tmp_path, spec.replace("*.txt", "*.csv"))) == 1
