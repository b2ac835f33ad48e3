"""evaluation.json and the metrics it is made of."""

from __future__ import annotations

import json
import math
from pathlib import Path

from trainwright.evaluation import results
from trainwright.evaluation.held_out import HeldOut
from trainwright.evaluation.results import Evaluation, Point
from trainwright.evaluation.tasks import TaskResult


def test_points_are_read_by_step_and_the_last_measurement_counts(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [
        {"kind": "step", "step": 1, "loss": 9.0},
        {"kind": "eval", "step": 10, "eval_loss": 2.0, "perplexity": 7.4, "bits_per_byte": 0.9, "eval_tokens": 5},
        {"kind": "eval", "step": 0, "eval_loss": 3.0, "perplexity": 20.1, "bits_per_byte": None, "eval_tokens": 5},
        {"kind": "eval", "step": 10, "eval_loss": 1.5, "perplexity": 4.5, "bits_per_byte": 0.8, "eval_tokens": 5},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "eval", "st')
    found = results.points(path)
    assert list(found) == [0, 10]
    assert found[10].result == HeldOut(1.5, 4.5, 0.8, 5)
    assert results.points(tmp_path / "none.jsonl") == {}


def test_a_gate_sees_every_number_and_no_invented_one() -> None:
    bare = Evaluation("r-00000000", 5, "the newest")
    assert bare.metrics == {}
    full = Evaluation(
        "r-00000000", 5, "the best", Point(0, HeldOut(3.0, 20.0, None, 9)), Point(5, HeldOut(2.0, 7.4, 1.1, 9)),
        tasks=(TaskResult("arc", "multiple_choice", 0.4, "accuracy", 10),),
    )  # fmt: skip
    assert full.metrics == {"eval_loss": 2.0, "perplexity": 7.4, "bits_per_byte": 1.1, "baseline": 3.0, "arc": 0.4}


def test_numbers_that_json_does_not_have_become_null(tmp_path: Path) -> None:
    hopeless = Evaluation("r-00000000", 5, "the newest", held_out=Point(5, HeldOut(math.nan, math.inf, None, 1)))
    results.write(tmp_path / "evaluation.json", hopeless.to_dict())
    read = json.loads((tmp_path / "evaluation.json").read_text(), parse_constant=lambda word: word)
    assert read["held_out"] == {
        "step": 5, "eval_loss": None, "perplexity": None, "bits_per_byte": None, "eval_tokens": 1,
    }  # fmt: skip
