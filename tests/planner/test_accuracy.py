"""The benchmark's interface, and that the shipped constants still reach what the README promises of them."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
DATA = BENCHMARKS / "data" / "planner"


@pytest.fixture(scope="module")
def accuracy() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import planner_accuracy

        return planner_accuracy
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def report(accuracy: Any) -> dict[str, Any]:
    rows = [accuracy.predict(case) for path in sorted(DATA.glob("*.csv")) for case in accuracy.read(path)]
    names = sorted({row.case.file for row in rows})
    return {name: accuracy.summarise([row for row in rows if row.case.file == name]) for name in names}


def test_time_errors_stay_within_the_targets(report: dict[str, Any]) -> None:
    for name, limit in (
        ("vtrain_multi_a100.csv", 5.0),
        ("vtrain_single_a100.csv", 5.0),
        ("dgxc_h100.csv", 6.0),
        ("llm_foundry_fsdp.csv", 7.0),
    ):
        assert report[name]["time"]["mape_pct"] <= limit
        assert report[name]["time"]["spearman"] > 0.95
        assert report[name]["time"]["mape_pct"] < report[name]["baselines"]["constant_hfu"]["time"]["mape_pct"] / 2


def test_memory_errors_stay_within_the_targets(report: dict[str, Any]) -> None:
    memory = report["megatron_golden_small_h100.csv"]["memory"]
    assert memory["median_pct"] <= 5
    assert memory["under_15_share"] <= 0.03
    assert report["megatron_golden_large.csv"]["memory"]["under_15_share"] == 0


def test_the_layout_ranked_first_is_nearly_the_best(report: dict[str, Any]) -> None:
    for name in ("vtrain_multi_a100.csv", "vtrain_single_a100.csv"):
        assert report[name]["regret"]["median_pct"] <= 5
        assert report[name]["regret"]["worst_pct"] <= 10


def test_papers_that_nothing_was_fitted_on_are_met(accuracy: Any) -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import planner_published as published
    finally:
        sys.path.remove(str(BENCHMARKS))
    tables: dict[str, list[float]] = {}
    for check in published.checks():
        tables.setdefault(check.table, []).append(abs(check.error_pct))
    mean = {table: sum(errors) / len(errors) for table, errors in tables.items()}
    assert mean["Korthikanti table 5, s"] <= 3
    assert mean["Korthikanti figure 7, %"] <= 2
    assert mean["SC21 table 1, s"] <= 7
    assert mean["SC21 table 2, Megatron, s"] <= 5
    assert mean["Llama 3 table 4, TFLOP/s"] <= 15
    assert mean["NeMo static, GiB"] <= 2
    assert mean["NeMo peak, GiB"] <= 10
    times = [seconds for _, seconds in published.weak_scaling()]
    assert 0 <= times[-1] / times[0] - 1 <= 0.05


def test_json_has_the_agreed_keys(accuracy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert accuracy.main(["--csv", str(DATA / "dgxc_h100.csv"), "--output", "json"]) == 0
    out = json.loads(capsys.readouterr().out)
    part = out["files"]["dgxc_h100.csv"]
    assert part["rows"] == 34
    assert {"mape_pct", "median_pct", "p90_pct", "worst_pct", "spearman"} <= part["time"].keys()
    assert part["memory"] is None
    assert {"median_pct", "worst_pct"} <= part["regret"].keys()
    assert set(part["baselines"]) == {"constant_hfu", "alpha_beta"}
    assert len(out["rows"]) == 34
    assert out["rows"][0]["time"]["measured"] == 12.27


def test_nanotron_rows_are_read(accuracy: Any, tmp_path: Path) -> None:
    path = tmp_path / "nanotron.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["nodes", "model_b", "mfu_pct", "gb", "best", "tok_s_gpu"])
        writer.writerow([64, 8.86, 30.0, 55.0, "DP128 TP2 PP2 GAS1 MBS2 ZeRO-1", 6000])
        writer.writerow([1, 5.0, 30.0, 55.0, "DP8 TP1 PP1 GAS1 MBS2 ZeRO-0", 6000])
    known, unknown = accuracy.read(path)
    assert known.layout.world_size == 512
    assert known.layout.zero == 1
    assert known.layout.global_batch_size == 256
    assert known.workload.dims.params == pytest.approx(8.86e9, rel=0.002)
    assert known.bytes == 55_000_000_000
    assert unknown.refused


DAMAGED = {
    "vtrain_multi_a100.csv": (
        {"ms_per_iter": ""}, {"ms_per_iter": "0"}, {"ms_per_iter": "nan"}, {"hidden": "x"}, {"dp": "0"}, {"pp": "41"},
        {"layers": "1e9"}, {"hidden": "3.5"},
    ),
    "dgxc_h100.csv": (
        {"model": "Foo 9B"}, {"s_per_step": ""}, {"micro_batch": "x"}, {"seq": "-1"}, {"layout": "TP3 PP5 CP7"},
        {"seq": "9" * 400},
    ),
    "llm_foundry_fsdp.csv": ({"model": "7000b"}, {"tok_s_gpu": ""}, {"tok_s_gpu": "0"}, {"seq": ""}, {"gpus": "0"}),
    "megatron_golden_small_h100.csv": (
        {"num-layers": ""}, {"num-layers": "1e9"}, {"GiB": "x"}, {"micro-batch-size": ""}, {"hidden-size": "0"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_row_is_refused_alone(
    accuracy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with (DATA / name).open(newline="") as file:
        good = next(csv.DictReader(file))
    path = tmp_path / name
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, good)
        writer.writeheader()
        writer.writerows([good, *({**good, **damage} for damage in DAMAGED[name])])
    assert accuracy.main(["--csv", str(path), "--output", "json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["files"][name]["rows"] == 1
    assert out["files"][name]["refused"] == len(DAMAGED[name])
    assert all(row["refused"] for row in out["rows"][1:])


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b""])
def test_a_spreadsheets_mark_and_spaces_after_commas_are_read_over(
    accuracy: Any, tmp_path: Path, start: bytes
) -> None:
    lines = (DATA / "vtrain_multi_a100.csv").read_text().splitlines()[:3]
    path = tmp_path / "saved.csv"
    path.write_bytes(start + "\r\n".join(lines).replace(",", ", ").encode())
    assert [case.refused for case in accuracy.read(path)] == ["", ""]


def test_a_column_that_only_some_shapes_need_is_missed_row_by_row(accuracy: Any, tmp_path: Path) -> None:
    with (DATA / "llm_foundry_fsdp.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[:2]
    path = tmp_path / "short.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if name != "precision"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    assert [case.refused for case in accuracy.read(path)] == ["the column 'precision' is missing"] * 2


@pytest.mark.parametrize("best", ["garbage", "DP4 TP8", "DP9999 TP2 PP1", ""])
def test_a_nanotron_layout_that_does_not_fill_its_nodes_is_refused(accuracy: Any, tmp_path: Path, best: str) -> None:
    path = tmp_path / "nanotron.csv"
    path.write_text(f"nodes,model_b,mfu_pct,gb,best,tok_s_gpu\n8,80,38,70,{best},900\n")
    assert [bool(case.refused) for case in accuracy.read(path)] == [True]


def test_another_machine_can_be_named(accuracy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(DATA / "vtrain_multi_a100.csv")
    accuracy.main(["--csv", path, "--output", "json"])
    a100 = json.loads(capsys.readouterr().out)["rows"][0]["time"]["predicted"]
    accuracy.main(["--csv", path, "--machine", "dgx-h100", "--output", "json"])
    h100 = json.loads(capsys.readouterr().out)["rows"][0]["time"]["predicted"]
    assert h100 < 0.7 * a100


def test_bad_input_is_told_without_a_traceback(
    accuracy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "odd.csv"
    odd.write_text("a,b\n1,2\n")
    assert accuracy.main(["--csv", str(odd)]) == 2
    assert "none of the known shapes" in capsys.readouterr().err
    assert accuracy.main(["--csv", str(tmp_path / "missing.csv")]) == 2


def test_ranks_and_regret_are_computed_by_hand(accuracy: Any) -> None:
    assert accuracy.spearman([(1, 10), (2, 20), (3, 30)]) == pytest.approx(1.0)
    assert accuracy.spearman([(1, 30), (2, 20), (3, 10)]) == pytest.approx(-1.0)
    assert accuracy.spearman([(1, 1)]) is None
    assert accuracy.summary([(90, 100), (130, 100)])["mape_pct"] == pytest.approx(20)
