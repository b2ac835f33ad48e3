"""The request that starts a job: stages, what each holds, and what Ray cannot do."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from kubernetes_specs import own_script, plan_of, spec_of

from trainwright.errors import InputError
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.targets.ray import driver
from trainwright.targets.ray.render import REQUEST, demand, render


def request(spec: RunSpec, world: int, site: Site | None = None) -> dict[str, Any]:
    bundle = render(plan_of(spec, world), spec, site or Site(), {})
    found: dict[str, Any] = json.loads(next(file.text for file in bundle.files if file.path == REQUEST))
    return found


def test_the_driver_understands_what_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(storage="/shared/runs", evaluate={"samples": ["Once"]})
    asked = request(spec, 16, Site.model_validate({"ray": {"python": "/opt/a b/python"}}))
    words = shlex.split(asked["entrypoint"])
    assert words[:5] == ["exec", "/opt/a b/python", "-P", "-m", "trainwright.targets.ray.driver"]
    seen: dict[str, Any] = {}
    monkeypatch.setattr(driver, "drive", lambda arguments: seen.update(vars(arguments)) or 0)
    assert driver.main(words[5:]) == 0
    assert (seen["nodes"], seen["cpus"], seen["gpus"], seen["stages"]) == (2, 8, 8, "prepare,train,finish")
    assert (seen["prepare"], seen["finish"], seen["config"]) == ("4,0", "1,1", ".")


@pytest.mark.parametrize(
    ("spec", "world", "held"),
    [
        (spec_of(storage="/s"), 16, (2, {"CPU": 8.0, "GPU": 8.0})),
        (own_script(storage="/s"), 2, (2, {"CPU": 1.0})),
        (spec_of(storage="/s", compute={"instance": "trn1.32xlarge", "nodes": 4}, global_batch_size=128), 128,
         (4, {"CPU": 32.0, "neuron_cores": 32.0})),
    ],
)  # fmt: skip
def test_a_worker_holds_the_devices_of_its_ranks_and_no_other_stage_does(
    spec: RunSpec, world: int, held: tuple[int, dict[str, float]]
) -> None:
    asked = request(spec, world)
    assert demand(asked, "train") == held
    assert demand(asked, "finish") == (1, {"CPU": 1.0})


def test_the_run_travels_by_its_environment_and_lines_are_not_merged() -> None:
    spec = own_script(storage="/s", env={"A": "b c"})
    found = request(spec, 2)["runtime_env"]["env_vars"]
    assert (found["A"], found["RAY_DEDUP_LOGS"]) == ("b c", "0")
    assert found["TRAINWRIGHT_RUN_DIR"].startswith("/s/demo-")
    assert int(found["RAY_JOB_STOP_WAIT_TIME_S"]) >= 120


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "storage: is missing"),
        ({"storage": "s3://bucket/runs"}, "meet in a folder"),
        ({"storage": "/s", "secrets": {"T": {"kubernetes": "hf/token"}}}, "Kubernetes Secret"),
    ],
)
def test_what_ray_cannot_do_is_told(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        request(own_script(**fields), 2)
