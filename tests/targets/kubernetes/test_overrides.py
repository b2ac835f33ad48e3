"""``target.overrides`` changes what it names and nothing else, and refuses what Kubernetes does not know."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_specs import plan_of, site_of, spec_of
from test_render import objects, templates

from trainwright.errors import InputError
from trainwright.targets.bundle import Bundle
from trainwright.targets.kubernetes.manifest import plain, why
from trainwright.targets.kubernetes.overrides import merge
from trainwright.targets.kubernetes.render import render


def patched(overrides: dict[str, Any], kind: str = "jobset") -> Bundle:
    spec = spec_of(target={"name": kind, "overrides": overrides})
    return render(kind, plan_of(spec), spec, site_of(), {})


def test_pods_of_one_stage_are_patched_by_name() -> None:
    change = {
        "metadata": {"annotations": {"team": "nlp"}},
        "spec": {
            "terminationGracePeriodSeconds": 900,
            "priorityClassName": "high",
            "containers": [{"name": "trainer", "env": [{"name": "NCCL_DEBUG", "value": "WARN"}]}],
        },
    }
    bundle = patched({"pods": {"train": change}})
    train = next(templates(objects(bundle), "train"))
    assert train["metadata"]["annotations"]["team"] == "nlp"
    assert train["spec"]["terminationGracePeriodSeconds"] == 900
    env = train["spec"]["containers"][0]["env"]
    assert env[0]["name"] == "TRAINWRIGHT_RUN_DIR"
    assert env[-1] == {"name": "NCCL_DEBUG", "value": "WARN"}
    assert "priorityClassName" not in next(templates(objects(bundle), "prepare"))["spec"]
    text = next(file.text for file in bundle.files if file.path == "jobset.yaml")
    assert "terminationGracePeriodSeconds: 900  # target.overrides" in text


def test_an_object_is_patched_and_null_removes_a_field() -> None:
    change = {"spec": {"ttlSecondsAfterFinished": None, "replicatedJobs": [{"name": "train", "groupName": "g"}]}}
    jobset = objects(patched({"JobSet": change}))[-1]
    assert "ttlSecondsAfterFinished" not in jobset["spec"]
    jobs = {job["name"]: job for job in jobset["spec"]["replicatedJobs"]}
    assert list(jobs) == ["prepare", "train", "finish"]
    assert jobs["train"]["groupName"] == "g"
    assert "template" in jobs["train"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"Jobset": {}}, r"target\.overrides\.Jobset.*no object of this target.*JobSet"),
        ({"pods": {"trian": {}}}, r"pods\.trian.*did you mean train"),
        ({"pods": {"train": 3}}, r"pods\.train.*is 3"),
        ({"JobSet": [1]}, r"JobSet.*is \[1\]"),
        ({"pods": {"train": {"spec": {"nodeSelektor": {}}}}}, r"spec\.nodeSelektor.*did you mean nodeSelector"),
        ({"JobSet": {"spec": {"ttlSecondsAfterFinished": "1h"}}}, r"ttlSecondsAfterFinished.*'1h'.*integer"),
        ({"pods": {"train": {"spec": {"restartPolicy": "Sometimes"}}}}, r"restartPolicy.*one of Always"),
        ({"pods": {"train": {"spec": {"hostNetwork": 1}}}}, r"hostNetwork.*boolean"),
    ],
)
def test_what_means_nothing_is_refused(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"(?s){message}"):
        patched(overrides)


def test_a_field_that_this_kubernetes_lacks_is_never_written() -> None:
    change = {"spec": {"containers": [{"name": "trainer", "lifecycle": {"stopSignal": "SIGUSR1"}}]}}
    spec = spec_of(target={"name": "jobset", "overrides": {"pods": {"train": change}}})
    render("jobset", plan_of(spec), spec, site_of(), {"kubernetes": "1.33"})
    with pytest.raises(InputError, match=r"stopSignal.*since Kubernetes 1\.33.*for 1\.32"):
        render("jobset", plan_of(spec), spec, site_of(), {"kubernetes": "1.32"})


def test_merging_keeps_reasons_and_changes_neither_side() -> None:
    value = {"a": why({"x": 1}, "reason"), "l": [1, 2]}
    merged = merge(value, {"a": {"y": {"z": None, "w": 2}}, "l": [3]})
    assert plain(merged) == {"a": {"x": 1, "y": {"w": 2}}, "l": [3]}
    assert merged["a"].reason == "reason"
    assert plain(value) == {"a": {"x": 1}, "l": [1, 2]}
