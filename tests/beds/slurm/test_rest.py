"""The same run through slurmrestd with a token, from a host where no command of Slurm is used."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from slurm_bed import Bed, Run, wait

from trainwright.runs.folder import find
from trainwright.runs.steps import saved_step

pytestmark = pytest.mark.versions
URL = "http://127.0.0.1:6820"  # on the bed's host ctl


def with_token(bed: Bed, lifespan: int = 900) -> Bed:
    """The command line as run on ctl by a user who has a token."""
    token = bed.on("ctl", "scontrol", "token", f"lifespan={lifespan}").strip().partition("=")[2]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    runs = os.environ["TRAINWRIGHT_RUNS"]
    setting = ("env", f"SLURM_JWT={token}", f"PATH={path}", f"TRAINWRIGHT_RUNS={runs}", "OMP_NUM_THREADS=1")
    return replace(bed, before=(str(bed.folder / "on"), "ctl", *setting))


def phase(bed: Bed, run: Run) -> str:
    """By the command line."""
    code = None  # a run that has failed or was cancelled is told by the exit code too
    return str(json.loads(bed.cli("status", run.folder.run_id, "-o", "json", code=code))["phase"])


def submitted(bed: Bed, name: str, **fields: object) -> Run:
    spec = bed.script(name, script="patient.py", site={"login": URL}, **fields)  # type: ignore[arg-type]
    bed.cli("render", str(spec), "--dir", str(bed.here / f"bundle-{name}"))
    bed.cli("submit", str(bed.here / f"bundle-{name}"))
    return Run(find(name, bed.here / "runs"))


def test_a_run_through_slurmrestd(bed: Bed) -> None:
    far = with_token(bed)
    run = submitted(far, "rest", nodes=2)
    run.wait_until_it_says("from step 0")
    assert phase(far, run) == "RUNNING"
    assert {e["nodes"] for e in run.told("started") if e["stage"] == "train"} == {"n[1-2]"}
    jobs = run.jobs()
    far.cli("submit", str(bed.here / "bundle-rest"))
    assert run.jobs() == jobs
    assert "CANCELLED" in far.cli("cancel", run.folder.run_id)
    assert "SIGUSR1" in run.log(1)
    step = saved_step(run.folder)
    assert step
    assert not bed.queue()
    far.cli("resume", run.folder.run_id)
    wait(lambda: phase(far, run) == "SUCCEEDED", "the end of the resumed run")
    assert f"from step {step}" in run.log(2)


def test_why_a_run_waits_and_why_it_is_refused(bed: Bed) -> None:
    far = with_token(bed)
    overrides = {"train": {"time": 5, "partition": "short"}}
    run = submitted(far, "short", target={"name": "slurm", "overrides": overrides})
    reason = "asks for more time than the partition allows"
    wait(lambda: reason in far.cli("status", run.folder.run_id), "the reason", seconds=60)
    spec = far.script("nowhere", script="patient.py", site={"login": URL, "partition": "nowhere"})
    far.cli("render", str(spec), "--dir", str(bed.here / "bundle-nowhere"))
    assert "partition" in far.cli("submit", str(bed.here / "bundle-nowhere"), code=2)
    assert all(name.startswith("short-") for name in bed.queue().values())


def test_a_token_that_expired_and_a_server_that_is_not_there(bed: Bed) -> None:
    spec = bed.script("token", script="patient.py", site={"login": URL})
    old = with_token(bed, lifespan=1)
    time.sleep(2)
    old.cli("render", str(spec), "--dir", str(bed.here / "bundle"))
    text = old.cli("submit", str(bed.here / "bundle"), code=3)
    assert "it expired" in text
    assert "scontrol token" in text
    spec = bed.script("away", script="patient.py", site={"login": "http://127.0.0.1:9"})
    old.cli("render", str(spec), "--dir", str(bed.here / "away"))
    assert "does not answer" in old.cli("submit", str(bed.here / "away"), code=3)
    assert not bed.queue()


def test_many_runs_are_one_query(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen in slurmrestd's own book: the list of all runs asks once, however many there are."""
    far = with_token(bed)
    run = submitted(far, "many", target={"name": "slurm", "overrides": {"train": {"partition": "down"}}})
    record = run.folder.job_file.read_text()
    for number in range(20):
        copy = bed.here / "runs" / f"many-{number:08x}"
        copy.mkdir()
        (copy / "job.json").write_text(record)
    script = (
        "import trainwright.targets.slurm.rest as r; asked = []; call = r.Rest._call\n"
        "r.Rest._call = lambda self, m, p, b=None: asked.append(p) or call(self, m, p, b)\n"
        "from pathlib import Path; from trainwright.runs.folder import RunFolder\n"
        "from trainwright.targets.slurm.target import Slurm\n"
        "t = Slurm(); folders = [RunFolder(p) for p in Path('runs').resolve().iterdir() if p.is_dir()]\n"
        "states = t.statuses([t.ref(f) for f in folders]); print(len(states), [p.split('/')[-1] for p in asked])\n"
    )
    done = far.python("-c", script)
    assert done.split(" ", 1) == ["21", "['v3', 'jobs']\n"]
