"""Messages become sentences: every known wording of every system, and the rules of precedence between several."""

from __future__ import annotations

import re

import pytest

from trainwright.facts import reasons as table
from trainwright.targets.reasons import earliest_cause, explain, lines_of, match, provisioning, scheduling

WORDINGS = [
    (entry.system, text, entry.id)
    for system in table.systems()
    for entry in table.entries(system)
    for text in (entry.sample, *entry.also)
]


@pytest.mark.parametrize(
    ("system", "text", "id_"), WORDINGS, ids=[f"{case[2]}-{n}" for n, case in enumerate(WORDINGS)]
)
def test_each_wording_is_known_by_its_own_entry(system: str, text: str, id_: str) -> None:
    found = match(system, text)
    assert found is not None
    if text == next(entry.sample for entry in table.entries(system) if entry.id == id_):
        assert found.entry.id == id_
    assert not re.search(r"\{\w+\}", found.reason.sentence + found.reason.next_step)
    assert found.reason.sentence.endswith((".", "!", "?"))
    assert not found.reason.sentence.endswith("..")


@pytest.mark.parametrize(
    "text",
    [
        "step 12 loss 2.31", "Priority queue of the loader is empty", "Resources are fine", "epoch 3 done in 4 s",
        "INFO: saving to /data/Dependency/x", "warning: TIMEOUT is set to 30", "cancelled the timer",
    ],
)  # fmt: skip
def test_harmless_lines_mean_nothing(text: str) -> None:
    assert match("slurm", text, where="job stdout") is None


def test_unknown_message_is_shown_unchanged() -> None:
    reason = explain("slurm", "Reason=SomethingNew")
    assert (reason.class_, reason.sentence, reason.raw) == ("unknown", "Reason=SomethingNew.", "Reason=SomethingNew")


def test_place_keeps_messages_of_other_places_out() -> None:
    assert match("slurm", "TIMEOUT", where="State column") is not None
    assert match("slurm", "TIMEOUT", where="sbatch") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Reason=QOSGrpGRES", "holds all the GPUs"),
        ("Reason=QOSMaxNodePerJobLimit", "more nodes"),
        ("Reason=AssocGrpCPUMinutesLimit", "minutes of CPUs"),
        ("(AssocMaxJobsLimit)", "on running jobs is reached"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-02T10:00:00 DUE TO PREEMPTION ***", "job"),
    ],
)
def test_slurm_resources_are_named_as_people_name_them(text: str, words: str) -> None:
    assert words in explain("slurm", text).sentence


@pytest.mark.parametrize(
    ("message", "id_"),
    [
        ("0/12 nodes are available: 4 node(s) had untolerated taint {dedicated: infra}, 8 Insufficient "
         "nvidia.com/gpu. preemption: 0/12 nodes are available: 12 No preemption victims found for incoming pod.",
         "ksched-insufficient-device"),
        ("0/5 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 2 Insufficient nvidia.com/gpu.",
         "ksched-insufficient-device"),
        ("0/3 nodes are available: 1 Insufficient memory, 2 node(s) had volume node affinity conflict.",
         "ksched-insufficient-basic"),
        ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/3 nodes are "
         "available: 3 Preemption is not helpful for scheduling.", "ksched-pvc-unbound"),
        ("0/4 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 2 node(s) had untolerated "
         "taint {x: y}.", "ksched-affinity"),
        ("0/4 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 3 node(s) "
         "didn't match Pod's node affinity/selector.", "ksched-taint-node-health"),
        ("0/9 nodes are available: 9 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/9 "
         "nodes are available: 9 Preemption is not helpful for scheduling.", "ksched-taint-plain"),
        ("no nodes available to schedule pods", "ksched-no-nodes"),
    ],
)  # fmt: skip
def test_the_part_of_a_scheduler_message_that_counts(message: str, id_: str) -> None:
    found = scheduling(message)
    assert found is not None
    assert found.entry.id == id_


def test_karpenter_part_of_the_own_nodepool_counts_else_the_firmest() -> None:
    text = (
        'Failed to schedule pod, incompatible with nodepool "cpu", daemonset overhead={"cpu":"1"}, did not tolerate '
        'x=y:NoSchedule; all available instance types exceed limits for nodepool: "gpu"'
    )
    own, unknown = provisioning(text, "cpu"), provisioning(text)
    assert own is not None
    assert unknown is not None
    assert own.entry.id == "karpenter-taint"
    assert unknown.entry.id == "karpenter-limits"


def test_ec2_code_beats_the_karpenter_text_around_it() -> None:
    text = (
        "NodeClaim gpu-abcde event: creating instance, insufficient capacity, with fleet error(s), "
        "VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit of 96 allows"
    )
    found = provisioning(text)
    assert found is not None
    assert found.reason.class_ == "quota"


def test_of_a_failure_the_cause_counts_and_lost_nodes_come_first() -> None:
    log = [
        "slurmstepd: error: *** STEP 4242.0 ON n1 CANCELLED AT 2026-03-02T10:00:00 DUE TO TASK FAILURE ***",
        "srun: error: n2: task 1: Out Of Memory",
        "srun: error: n1: task 0: Exited with exit code 1",
    ]
    worst = earliest_cause(lines_of("slurm", log, where="job stdout"))
    assert worst is not None
    assert worst.reason.class_ == "oom"
    worst = earliest_cause(lines_of("slurm", [*log, "srun: error: Node failure on n2"], where="job stdout"))
    assert worst is not None
    assert worst.groups["nodes"] == "n2"
    assert earliest_cause([]) is None
