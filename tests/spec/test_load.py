"""Loading a spec: every problem at once, each with its position and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.spec.load import load, load_site, read_resolved
from trainwright.spec.units import Amount
from trainwright.spec.write import spec_to_yaml

FIXTURES = Path(__file__).parent / "fixtures"
MINIMAL = "name: a\nmodel: gpt2\ndata: {sources: [./x]}\n"


def write(tmp_path: Path, text: str, name: str = "run.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def problems(tmp_path: Path, text: str, *overrides: str) -> list[str]:
    """The problems of a spec as text, without the folder."""
    with pytest.raises(InputError) as caught:
        load(write(tmp_path, text), overrides)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]


def test_every_problem_is_told_at_once_in_the_words_of_the_golden_file() -> None:
    with pytest.raises(InputError) as caught:
        load(FIXTURES / "many_problems.yaml")
    told = str(caught.value).replace(f"{FIXTURES}/", "")
    assert told == (FIXTURES / "many_problems.txt").read_text().rstrip("\n")


def test_a_minimal_spec_has_defaults_and_absolute_paths(tmp_path: Path) -> None:
    spec = load(write(tmp_path, MINIMAL)).spec
    assert spec.model is not None
    assert spec.model.path == "gpt2"
    assert spec.data is not None
    assert spec.data.sources[0].path == str(tmp_path / "x")
    assert spec.checkpoint.every == Amount(200, "steps")


def test_a_hub_id_beside_a_folder_of_that_name_is_the_folder(tmp_path: Path) -> None:
    (tmp_path / "gpt2").mkdir()
    spec = load(write(tmp_path, MINIMAL)).spec
    assert spec.model is not None
    assert spec.model.path == str(tmp_path / "gpt2")


def test_relative_paths_are_relative_to_the_file_not_to_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    path = write(folder, MINIMAL)
    monkeypatch.chdir(tmp_path)
    spec = load(Path("deep/run.yaml")).spec
    assert spec == load(path).spec
    assert spec.data is not None
    assert spec.data.sources[0].path == str(folder / "x")


def test_the_resolved_spec_reads_back_to_the_same_value(tmp_path: Path) -> None:
    text = MINIMAL + 'env: {A: "1e9", B: "on", C: "010", D: "", E: "~", F: "a\\nb: c", G: "12:30", H: "0x1f"}\n'
    spec = load(write(tmp_path, text), ["duration=2e9 tokens", "checkpoint.every=90m", "schedule.warmup=0.1"]).spec
    again = read_resolved(write(tmp_path, spec_to_yaml(spec), "resolved.yaml"))
    assert again == spec
    assert again.sha256 == spec.sha256


def test_yaml_1_1_traps_stay_what_they_look_like(tmp_path: Path) -> None:
    text = MINIMAL + "env: {SWITCH: on, ANSWER: no, TIME: 12:30}\noptimizer: {lr: 1e-3}\nsequence_length: 0x100\n"
    spec = load(write(tmp_path, text)).spec
    assert spec.env == {"SWITCH": "on", "ANSWER": "no", "TIME": "12:30"}
    assert spec.optimizer.lr == 1e-3
    assert spec.sequence_length == 256


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", ["run.yaml:2:1: a: is given twice, first on line 1; keep one of the two"]),
        (
            "seed: 010\n",
            ["run.yaml:1:7: seed: 010 is octal in YAML 1.1 and decimal in YAML 1.2; write 10, or quote it"],
        ),
        ("a: 1\n---\nb: 2\n", ["run.yaml:3:1: a second document starts here; keep one document in a file"]),
        ("", ["run.yaml: is empty; `trainwright init` writes a commented one"]),
        (
            "- a\n",
            ["run.yaml:1:1: holds a list, not a mapping of fields; `trainwright init` writes a commented spec"],
        ),
        ("a: &x [*x]\n", ["run.yaml:1:4: a.0: contains itself through an alias; write the value out"]),
        ("a: !!python/object:os.system {}\n", []),
        ("<<: {a: 1}\n", ["run.yaml:1:1: uses a YAML merge key (<<); write the fields out, or use --set"]),
        ("{" * 100, ["run.yaml: is nested more than 64 levels deep"]),
    ],
)
def test_what_is_no_plain_mapping_is_refused_at_its_place(tmp_path: Path, text: str, expected: list[str]) -> None:
    told = problems(tmp_path, text)
    assert told[: len(expected)] == expected or expected == []
    assert told


def test_broken_yaml_names_the_line_and_tabs(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, "name: a\n\tmodel: b\n")
    assert told.startswith("run.yaml:2:1: is not YAML")
    assert "spaces, not tabs" in told


def test_alias_bombs_end_in_a_sentence(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    (told,) = problems(tmp_path, "\n".join(lines))
    assert "repeats too much through aliases" in told


def test_environment_variables_are_filled_in_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS", "/corpus")
    monkeypatch.delenv("ABSENT", raising=False)
    text = "name: a\nmodel: gpt2\ndata: {sources: ['${env:CORPUS}/x', '${env:ABSENT:-/y}']}\n"
    spec = load(write(tmp_path, text)).spec
    assert spec.data is not None
    assert [source.path for source in spec.data.sources] == ["/corpus/x", "/y"]
    told = problems(tmp_path, text.replace(":-/y", ""))
    assert told == [
        "run.yaml:3:37: data.sources.1: ${env:ABSENT} is not set; export ABSENT, or write ${env:ABSENT:-default}"
    ]


def test_shell_variables_of_scripts_and_env_are_left_alone(tmp_path: Path) -> None:
    text = "name: a\ntrain: {script: ./t.py, args: ['${HOME}', '$(date)']}\nenv: {CACHE: '${HOME}/x'}\n"
    spec = load(write(tmp_path, text)).spec
    assert spec.train is not None
    assert spec.train.args == ("${HOME}", "$(date)")
    assert spec.env == {"CACHE": "${HOME}/x"}


def test_set_reaches_nested_fields_lists_and_shorthands(tmp_path: Path) -> None:
    overrides = ["optimizer.lr=1e-4", "data.sources.0=./other", "model.from_scratch=true", "evaluate.samples=[a, b]"]
    spec = load(write(tmp_path, MINIMAL), overrides).spec
    assert spec.optimizer.lr == 1e-4
    assert spec.data is not None
    assert spec.data.sources[0].path == str(tmp_path / "other")
    assert spec.model is not None
    assert spec.model.from_scratch
    assert spec.evaluate.samples == ("a", "b")


def test_a_wrong_set_names_itself(tmp_path: Path) -> None:
    told = problems(tmp_path, MINIMAL, "optimizer.lrr=1", "nonsense", "name.x=1", "seed=[", "foo.bar=1")
    assert "--set optimizer.lrr=1: optimizer.lrr: unknown field; did you mean lr?" in told
    assert any(text.startswith("--set foo.bar=1: foo: unknown field") for text in told)
    assert any(text.startswith("--set nonsense: is no override") for text in told)
    assert any(text.startswith("--set name.x=1: leads through a value") for text in told)
    assert any(text.startswith("--set seed=[: is not YAML") for text in told)


def test_a_sites_defaults_lie_under_the_spec(tmp_path: Path) -> None:
    write(tmp_path, "name: lab\ndefaults: {storage: ./shared, retry: {infrastructure: 9}, seed: 5}\n", "site.yaml")
    loaded = load(write(tmp_path, MINIMAL + "retry: {user: 1}\nseed: 6\n"))
    assert loaded.site.name == "lab"
    assert loaded.spec.storage == str(tmp_path / "shared")
    assert (loaded.spec.retry.user, loaded.spec.retry.infrastructure, loaded.spec.seed) == (1, 9, 6)


def test_a_wrong_site_is_told_like_a_wrong_spec(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_site(write(tmp_path, "slurm: {partitoin: gpu}\n", "site.yaml"))
    assert "site.yaml:1:9: slurm.partitoin: unknown field; did you mean partition?" in str(caught.value)


def test_secrets_never_stand_in_a_spec(tmp_path: Path) -> None:
    told = problems(tmp_path, MINIMAL + "env: {HF_TOKEN: hf_abc}\n")
    assert told == [
        "run.yaml:4:17: env.HF_TOKEN: looks like a secret written out; use secrets: {HF_TOKEN: {env: HF_TOKEN}}"
    ]


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL)
    with pytest.raises(InputError) as caught:
        load(tmp_path / "rnu.yaml")
    assert "no such file; did you mean run.yaml?" in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x00\x01", b"name: \xe9"])
def test_a_binary_file_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError):
        load(path)
