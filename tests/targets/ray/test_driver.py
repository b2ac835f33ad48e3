"""The driver of a Ray job: what it understands, and when it must not start again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from kubernetes_specs import own_script, plan_of, site_of, spec_of
from test_render import CASES, objects

from trainwright.runs.folder import RunFolder
from trainwright.spec.write import spec_to_yaml
from trainwright.targets.kubernetes.attempts import Member
from trainwright.targets.kubernetes.rayjob import DRIVER
from trainwright.targets.kubernetes.render import render
from trainwright.targets.ray import driver, telling


@pytest.mark.parametrize(
    ("case", "nodes", "cpus", "gpus", "resource"),
    [("two-p4d", 2, 93, 8, []), ("own-script", 2, 1, 0, []), ("trainium", 4, 125, 0, ["neuron_cores=32"])],
)
def test_the_driver_understands_the_entrypoint_that_is_rendered(
    monkeypatch: pytest.MonkeyPatch, case: str, nodes: int, cpus: int, gpus: int, resource: list[str]
) -> None:
    spec, site, world = CASES[case]
    job = next(o for o in objects(render("rayjob", plan_of(spec, world), spec, site, {})) if o["kind"] == "RayJob")
    words = job["spec"]["entrypoint"].split()
    assert tuple(words[:4]) == DRIVER
    seen: dict[str, Any] = {}
    monkeypatch.setattr(driver, "drive", lambda arguments: seen.update(vars(arguments)) or 0)
    assert driver.main(words[4:]) == 0
    assert (seen["nodes"], seen["cpus"], seen["gpus"], seen["resource"]) == (nodes, cpus, gpus, resource)
    assert seen["failures"] == 3
    workers = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    assert workers["minReplicas"] == workers["maxReplicas"] == nodes


def test_an_error_of_the_user_is_not_tried_again_but_a_crash_is(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "demo-00000000")
    one, two = (Member(run, "train", node, "d") for node in range(2))
    assert driver.stopped_for_good(one) is None
    one.start(), two.start()
    two.end(1, 70)
    one.end(1, 75)
    assert driver.stopped_for_good(one) is None
    one.start(), two.start()
    one.end(2, 75)
    two.end(2, 1)
    assert driver.stopped_for_good(one) == 1
    assert driver.stopped_for_good(Member(run, "train", 0, "another spec")) is None


def test_the_cluster_that_stays_grows_and_is_not_submitted() -> None:
    spec = spec_of()
    bundle = render("rayjob", plan_of(spec), spec, site_of(), {})
    text = next(file for file in bundle.files if file.path == "raycluster.yaml")
    assert text.apply_order == 0
    for line in ("enableInTreeAutoscaling: true", "minReplicas: 1", "maxReplicas: 16", "serviceType: ClusterIP"):
        assert line in text.text


def test_the_driver_is_imported_without_ray() -> None:
    code = "import sys, trainwright.targets.ray.driver; print([m for m in ('ray', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


CHILD = """
import os, pathlib, signal, sys, time
here = pathlib.Path(os.environ["TRAINWRIGHT_RUN_DIR"])
def save(number, frame):
    pathlib.Path(os.environ["TRAINWRIGHT_TERMINATION"]).write_text('{"v": 1, "saved": 4}')
    sys.exit(75)
signal.signal(signal.SIGTERM, save if sys.argv[1] == "saves" else signal.SIG_IGN)
(here / "runs").touch()
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("kind", "wish", "code"), [("saves", "{}", 75), ("hangs", '{"grace_seconds": 0}', -signal.SIGKILL)]
)
def test_a_wish_to_stop_reaches_the_stage_and_its_last_words_are_printed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    kind: str,
    wish: str,
    code: int,
) -> None:
    run, real = RunFolder(tmp_path), subprocess.Popen
    monkeypatch.setenv("TRAINWRIGHT_RUN_DIR", str(tmp_path))
    monkeypatch.delenv("TRAINWRIGHT_CONFIG", raising=False)
    monkeypatch.setattr(driver, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(
        driver.subprocess, "Popen", lambda _, **more: real([sys.executable, "-c", CHILD, kind], **more)
    )

    def wait_and_ask() -> None:
        while not (tmp_path / "runs").exists():
            time.sleep(0.02)
        run.cancel_request.write_text(wish)

    asker = threading.Thread(target=wait_and_ask)
    asker.start()
    assert driver.run_stage(run, "finish") == code
    asker.join()
    said = capfd.readouterr().out
    assert ('trainwright: ended {"v": 1, "saved": 4}' in said) == (kind == "saves")


def test_a_secret_that_the_nodes_have_not_got_ends_the_stage_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = own_script(storage="/s", secrets={"HF_TOKEN": {"env": "NOT_SET_ANYWHERE"}})
    RunFolder(tmp_path).spec_file.write_text(spec_to_yaml(spec))
    monkeypatch.setenv("TRAINWRIGHT_CONFIG", str(tmp_path))
    assert driver.run_stage(RunFolder(tmp_path), "train") == 2
    told = telling.read(capfd.readouterr().out)
    assert told.failure is not None
    assert "NOT_SET_ANYWHERE is not set" in str(told.failure["exception"])
