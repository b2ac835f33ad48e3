"""Targets are found by name, by reference and by run; importing the registry imports none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from local_machine import Machine, script

from trainwright import targets
from trainwright.errors import InputError
from trainwright.runs.state import JobRef
from trainwright.targets.contract import Target
from trainwright.targets.local.target import Local


def test_every_registered_target_resolves_and_knows_its_name() -> None:
    for name in targets.REGISTRY:
        target: Target = targets.get(name)
        assert target.name == name


def test_every_scheme_leads_to_a_registered_target() -> None:
    assert {targets.for_scheme(scheme).name for scheme in targets.SCHEMES} <= set(targets.REGISTRY)


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no target 'locla'.*did you mean local\?"):
        targets.get("locla")
    with pytest.raises(InputError, match="no target answers for ftp://"):
        targets.for_scheme("ftp")


def test_the_registry_imports_no_target() -> None:
    code = "import sys, trainwright.targets; print([m for m in sys.modules if '.targets.local' in m or m == 'torch'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_local_target_imports_no_training_library() -> None:
    code = (
        "import sys, trainwright.targets.local.target, trainwright.targets.local.supervisor\n"
        "print([m for m in ('torch', 'transformers', 'numpy', 'trainwright.training') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run_leads_back_to_its_target_and_reference(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = machine.submit(script("train", ""))
    machine.end(ref)
    folder = machine.folder(ref)
    target, found = targets.of_run(folder)
    assert (target.name, found) == ("local", ref)
    folder.job_file.unlink()
    assert targets.of_run(folder)[1] == ref
    monkeypatch.setenv("TRAINWRIGHT_RUNS", str(machine.runs))
    assert Local().ref(folder) == JobRef("local", (folder.run_id,))
    assert Local().folder(JobRef("local", (folder.run_id,))).root == folder.root


@pytest.mark.parametrize("parts", [("../../etc",), ("nothing-0a1b2c3d",), ("a", "b"), ("/etc",), ("",)])
def test_a_reference_that_names_no_run_is_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="names no run"):
        Local().folder(JobRef("local", parts))
