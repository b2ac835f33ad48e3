"""A job's log, as Ray forwards what workers print, is read back line by line."""

from __future__ import annotations

from trainwright.targets.ray import telling

LOG = """\
Running entrypoint for job demo-1: exec python3 -P -m trainwright.targets.ray.driver drive
trainwright: waits prepare
\x1b[36m(on_a_node pid=11)\x1b[0m trainwright: begins prepare
\x1b[36m(on_a_node pid=11)\x1b[0m tokenised 12 documents
\x1b[36m(on_a_node pid=11)\x1b[0m trainwright: ended {"v": 1, "stage": "prepare", "attempt": 1, "class": "finished"}
trainwright: waits train
(TrainController pid=12) Attempting to start training worker group of size 2
(RayTrainWorker pid=13, ip=10.0.0.1) trainwright: begins train
(RayTrainWorker pid=13, ip=10.0.0.1) [rank 0] step 1/4  loss 2.5000
(RayTrainWorker pid=14, ip=10.0.0.2) [rank 1] (note) in brackets
(RayTrainWorker pid=14, ip=10.0.0.2) trainwright: ended {"v": 1, "stage": "train", "attempt": 1, "node": 1, \
"code": 1, "class": "user", "rank": 1, "exception": "ValueError: no", "line": "a.py:3", "saved": 4}
(RayTrainWorker pid=13, ip=10.0.0.1) trainwright: ended {"v": 1, "stage": "train", "attempt": 1, "class": "resume"}
(RayTrainWorker pid=15, ip=10.0.0.1) trainwright: begins train
(RayTrainWorker pid=15, ip=10.0.0.1) [rank 0] step 5/8  loss 2.0000
trainwright: ended no JSON
"""


def test_ranks_stages_and_attempts_are_told_apart() -> None:
    told = telling.read(LOG)
    ranks = [(line.attempt, line.rank, line.text) for line in told.lines if line.rank is not None]
    assert ranks == [
        (1, 0, "step 1/4  loss 2.5000"), (1, 1, "(note) in brackets"), (2, 0, "step 5/8  loss 2.0000"),
    ]  # fmt: skip
    assert "tokenised 12 documents" in [line.text for line in told.lines if line.rank is None]
    assert (told.stage, told.waits, told.attempt, told.saved) == ("train", False, 2, 4)
    assert told.failure is not None
    assert told.failure["exception"] == "ValueError: no"


def test_a_stage_that_waits_has_not_begun() -> None:
    told = telling.read(LOG[: LOG.index("(TrainController")])
    assert (told.stage, told.waits) == ("train", True)


def test_attempts_go_on_where_the_job_before_has_stopped() -> None:
    told = telling.read("trainwright: begins train\n[rank 0] x\n", first_attempt=3)
    assert [(line.attempt, line.rank) for line in told.lines] == [(3, 0)]


def test_a_failure_of_an_attempt_that_was_tried_again_is_no_failure_of_the_run() -> None:
    more = 'trainwright: ended {"v": 1, "stage": "train", "attempt": 2, "class": "resume", "saved": 8}\n'
    assert telling.read(LOG + more).failure is None
    assert telling.read(LOG + more).saved == 8
