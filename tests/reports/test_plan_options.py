"""Options of ``trainwright plan`` that contradict each other or the spec beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainwright.cli import main
from trainwright.reports.plan_options import contradictions


@pytest.mark.parametrize(
    ("what", "given", "fields"),
    [
        (("run.yaml",), {"nodes", "precision", "tokens"}, {"--nodes", "--precision", "--tokens"}),
        (("run.yaml",), {"model", "price", "region"}, {"--model", "--price", "--region"}),
        (("run.yaml",), {"compare", "nodes", "region", "price", "capacity"}, set()),
        (("run.yaml",), {"layout", "why", "failures", "calibration", "set_", "site", "output"}, set()),
        ((), {"model", "params"}, {"--model"}),
        ((), {"model_shape", "params"}, {"--model-shape"}),
        ((), {"model", "set_", "site"}, {"--set", "--site"}),
        ((), {"model", "lora_rank"}, {"--lora-rank"}),
        ((), {"model", "layout", "recompute", "compare"}, {"--recompute", "--compare"}),
        ((), {"model", "deadline", "nodes"}, {"--nodes"}),
        ((), {"model", "max_nodes"}, {"--max-nodes"}),
        ((), {"model", "max_nodes", "budget", "save", "compare"}, set()),
        ((), {"model", "compare", "save"}, {"--save"}),
        ((), {"model", "calibrate", "deadline"}, {"--deadline"}),
        (("diff", "a", "b"), {"why", "model", "output"}, {"--why", "--model"}),
    ],
)
def test_what_would_not_be_read_is_refused_with_the_way_to_say_it(
    what: tuple[str, ...], given: set[str], fields: set[str]
) -> None:
    found = contradictions(what, {"what", *given})
    assert {problem.field for problem in found} == fields
    assert all(problem.instead for problem in found)


def test_adapters_have_a_rank() -> None:
    assert contradictions((), {"model", "lora_rank"}, adapters=True) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--nodes", "4"], "--set compute.nodes=…"),
        (["--precision", "bf16"], "--set precision=…"),  # the default, said on purpose
    ],
)
def test_an_option_beside_a_spec_is_not_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["plan", str(tmp_path / "run.yaml"), *options])
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_what_is_asked_of_this_machine_is_refused_with_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.jsonl").write_text('{"text": "a"}\n')
    spec = {
        "version": 1, "name": "here", "model": {"path": "llama"}, "data": {"sources": ["text.jsonl"]},
        "sequence_length": 64, "global_batch_size": 2, "compute": {"instance": "local"},
    }  # fmt: skip
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text('{"model_type": "gpt2"}')
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps(spec))
    with pytest.raises(SystemExit) as left:
        main(["plan", str(path), "--deadline", "1h", "--compare", "p5.48xlarge"])
    assert left.value.code == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in told] == ["--compare", "--deadline"]
    assert "compute.instance" in told[0]


@pytest.mark.parametrize("option", ["--compare", "--layout"])
def test_an_empty_list_is_told(capsys: pytest.CaptureFixture[str], option: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(["plan", "--model", "gpt2", "--machine", "p5.48xlarge", option, ","])
    assert left.value.code == 2
    assert f"{option}: is empty" in capsys.readouterr().err
