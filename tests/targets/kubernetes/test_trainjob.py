"""A TrainJob by a runtime of the cluster says what the runtime cannot know, in the words of the Trainer's version."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_specs import plan_of, site_of, spec_of
from test_render import objects

from trainwright.errors import InputError
from trainwright.targets.kubernetes.render import render


def rendered(runtime: Any, version: str = "2.2") -> list[dict[str, Any]]:
    spec = spec_of(target={"name": "trainjob", "overrides": {"runtime": runtime}})
    return objects(render("trainjob", plan_of(spec), spec, site_of(), {"trainer": version}))


def test_stages_are_jobs_of_their_own_around_it() -> None:
    found = [(o["kind"], o["metadata"]["labels"]["trainwright.dev/stage"]) for o in rendered("torch-distributed")]
    assert found == [("ConfigMap", "config"), ("Job", "prepare"), ("TrainJob", "train"), ("Job", "finish")]


@pytest.mark.parametrize(
    ("version", "field"), [("2.0", "podSpecOverrides"), ("2.1", "podTemplateOverrides"), ("2.3", "runtimePatches")]
)
def test_each_version_has_its_own_field_for_patches(version: str, field: str) -> None:
    spec = rendered("torch-distributed", version)[2]["spec"]
    fields = {"podSpecOverrides", "podTemplateOverrides", "runtimePatches"}
    assert fields & set(spec) == {field}
    assert spec["trainer"]["resourcesPerNode"]["limits"]["vpc.amazonaws.com/efa"] == 4
    text = str(spec[field])
    assert "'claimName': 'fsx'" in text
    assert "'mountPath': '/dev/shm'" in text
    assert ("securityContext" in text) == (version >= "2.2")


def test_a_runtime_of_the_namespace_is_named_with_its_kind() -> None:
    reference = rendered({"kind": "TrainingRuntime", "name": "ours"})[2]["spec"]["runtimeRef"]
    assert reference == {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "ours"}
    with pytest.raises(InputError, match=r"overrides\.runtime.*is 3.*ClusterTrainingRuntime"):
        rendered(3)
