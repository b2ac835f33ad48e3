"""From #SBATCH lines to slurmrestd's fields, in both dialects; all that cannot be told is named at once."""

from __future__ import annotations

import pytest

from trainwright.errors import InputError
from trainwright.targets.slurm.rest_job import directives_of, fields_of, is_new, megabytes, minutes
from trainwright.targets.slurm.script import Directive

SCRIPT = """#!/bin/bash
# a comment
#SBATCH --job-name=demo.train
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1  # one torchrun agent a node
#SBATCH --gpus-per-node=a100:8  # all A100 of a p4d
#SBATCH --exclusive  # nobody else
#SBATCH --mem=0
#SBATCH --time=1-02:30:00
#SBATCH --signal=B:USR1@120
#SBATCH --wait-all-nodes=1
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=logs/slurm-%j.log
#SBATCH --propagate=NONE
#SBATCH --kill-on-invalid-dep=yes
#SBATCH --comment="two words # no comment"

true
#SBATCH --hold
"""
ADDED = {"chdir": "/runs/demo", "job-name": "demo-2.train", "dependency": "afterok:7", "exclude": "n1,n2"}
COMMON = {
    "name": "demo-2.train", "partition": "gpu", "tasks": 2, "tasks_per_node": 1, "requeue": True,
    "standard_output": "logs/slurm-%j.log", "current_working_directory": "/runs/demo", "dependency": "afterok:7",
    "comment": "two words # no comment",
}  # fmt: skip
OLD = {
    **COMMON, "nodes": 2, "gpus_per_node": "a100:8", "exclusive": "exclusive", "memory_per_node": 0,
    "time_limit": 1590,
    "signal": "10@120", "wait_all_nodes": 1, "open_mode": "append", "kill_on_invalid_dependency": True,
    "exclude_nodes": "n1,n2", "environment": {"A": "x=y z"},
}  # fmt: skip


def number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}


NEW = {
    **COMMON, "nodes": "2", "tres_per_node": "gres/gpu:a100:8", "shared": ["none"], "memory_per_node": number(0),
    "time_limit": number(1590), "kill_warning_signal": "USR1", "kill_warning_delay": number(120),
    "kill_warning_flags": ["BATCH_JOB"], "wait_all_nodes": True, "open_mode": ["APPEND"],
    "flags": ["KILL_INVALID_DEPENDENCY"], "excluded_nodes": ["n1", "n2"], "environment": ["A=x=y z"],
}  # fmt: skip


@pytest.mark.parametrize(("api", "expected"), [(38, OLD), (42, NEW)])
def test_a_script_becomes_the_fields_of_each_dialect(api: int, expected: dict[str, object]) -> None:
    assert fields_of(SCRIPT, ADDED, {"A": "x=y z"}, "train.sbatch", new=is_new(api)) == expected


@pytest.mark.parametrize("value", ["plain", "a b", 'say "x"', "back\\slash", "it's", "#1", "a100&nvlink|v100"])
def test_values_are_read_as_they_were_written(value: str) -> None:
    line = Directive("constraint", value, "why # not").line()
    assert directives_of(f"#!/bin/bash\n{line}\n") == {"constraint": value}


def test_everything_that_cannot_be_told_is_named_at_once() -> None:
    script = "#!/bin/bash\n#SBATCH --burst-buffer=x\n#SBATCH --mem=much\n#SBATCH --get-user-env\n"
    with pytest.raises(InputError) as told:
        fields_of(script, {}, {}, "train.sbatch", new=False)
    assert [problem.field for problem in told.value.problems] == ["--burst-buffer", "--mem", "--get-user-env"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("1:30", 2), ("1:30:00", 90), ("0:00:01", 1), ("2-12", 3600), ("1-02:30", 1590), ("1-0:0:1", 1441)],
)
def test_times(text: str, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1-x"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        minutes(text)


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("500", 500), ("16G", 16384), ("100K", 1), ("1T", 1 << 20)])
def test_memory(text: str, expected: int) -> None:
    assert megabytes(text) == expected
