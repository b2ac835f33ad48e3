"""What the local target renders: one readable file, the same bytes each time, read back to the same values."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_machine import Machine, script

from trainwright.errors import InputError
from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan
from trainwright.spec.load import spec_from_values
from trainwright.spec.site import Site
from trainwright.targets.bundle import Bundle
from trainwright.targets.local.stages import FINISH, PREPARE, REPORT, TRAIN, Settings, Stage, stages_of
from trainwright.targets.local.target import Local


def test_the_built_in_trainer_has_four_stages_and_an_own_script_two(machine: Machine) -> None:
    built_in = spec_from_values({"name": "a", "model": "gpt2", "data": {"sources": ["/text"]}})
    assert stages_of(built_in) == (PREPARE, TRAIN, FINISH, REPORT)
    assert stages_of(machine.spec()) == (TRAIN, REPORT)
    assert [stage.name for stage in stages_of(built_in) if not stage.required] == ["report"]


def test_stages_are_verbs_of_this_interpreter_on_the_runs_folder() -> None:
    argv = PREPARE.argv(Path("/runs/a b"))
    assert argv[0].startswith("/")
    assert argv[1:] == ["-P", "-m", "trainwright", "prepare", "/runs/a b"]


def test_rendering_is_pure(machine: Machine) -> None:
    one, two = machine.render(), machine.render()
    assert one == two
    assert [file.path for file in one.files] == ["local.yaml", "spec.yaml", "plan.json"]
    assert list(machine.bundles.parent.iterdir()) == []


def test_the_file_says_why_and_reads_back(tmp_path: Path) -> None:
    awkward = Stage("train", ("python", "yes", "1e3", "", "a: b", "#", "line\nbreak", "ü", "'", '"'), required=False)
    settings = Settings((PREPARE, awkward), 12.5, 0.25)
    path = tmp_path / "local.yaml"
    path.write_text(settings.to_text())
    assert Settings.read(path) == settings
    assert "time to finish a step and save it" in path.read_text()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "stages: []", "stages: 3", "a: [", "stages: [{name: a, command: []}]", "\0",
     "grace_seconds: x\nrestart_delay_seconds: 1\nstages: [{name: a, command: [b]}]",
     "grace_seconds: .nan\nrestart_delay_seconds: 1\nstages: [{name: a, command: [b]}]"],
)  # fmt: skip
def test_a_damaged_file_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "local.yaml").write_text(text)
    with pytest.raises(InputError, match=r"no local\.yaml"):
        Settings.read(tmp_path / "local.yaml")


def test_overrides_are_seconds_with_known_names() -> None:
    assert Settings((TRAIN,)).patched({"grace_seconds": 300}).grace_seconds == 300
    with pytest.raises(InputError) as raised:
        Settings((TRAIN,)).patched({"grace_secs": 3, "grace_seconds": "5m", "restart_delay_seconds": -1})
    assert "did you mean grace_seconds?" in str(raised.value)
    assert [problem.field.rpartition(".")[2] for problem in raised.value.problems] == [
        "grace_secs",
        "grace_seconds",
        "restart_delay_seconds",
    ]


def test_a_bundle_of_another_target_or_a_changed_one_is_refused(machine: Machine) -> None:
    folder = machine.bundle(script("train", ""))
    (folder / "local.yaml").write_text((folder / "local.yaml").read_text() + "# edited\n")
    with pytest.raises(InputError, match="was changed after it was rendered"):
        Local().submit(folder, runs=machine.runs)
    spec = machine.spec()
    plan = Plan(spec_sha256=spec.sha256, layout=Layout(), machine="test")
    foreign = Local().render(plan, spec, Site(), {})
    Bundle(foreign.run_id, "slurm", {}, {}, foreign.files, ()).write(machine.bundles / "foreign")
    with pytest.raises(InputError, match="is a bundle for target slurm"):
        Local().submit(machine.bundles / "foreign", runs=machine.runs)
    assert not machine.runs.exists()


def test_storage_that_is_no_folder_is_refused(machine: Machine) -> None:
    with pytest.raises(InputError, match=r"storage: is s3://bucket/x, but target local keeps runs in a folder"):
        Local().submit(machine.bundle(script("train", ""), storage="s3://bucket/x"))


def test_a_run_stands_in_the_storage_that_the_spec_names(machine: Machine, tmp_path: Path) -> None:
    machine.runs = tmp_path / "storage"
    ref = Local().submit(machine.bundle(script("train", ""), storage=str(machine.runs)))
    machine.end(ref)
    assert machine.folder(ref).root.parent == machine.runs


def test_a_bundle_inside_its_runs_folder_is_started_there(machine: Machine) -> None:
    bundle = machine.render(script("train", ""))
    place = machine.runs / bundle.run_id / "bundle"
    bundle.write(place)
    ref = Local().submit(place)
    machine.end(ref)
    assert machine.folder(ref).root == place.parent
