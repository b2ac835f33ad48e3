"""The same run from a machine without Slurm: over real ssh to the login host, with a copy of the logs at home."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_bed import Bed, Run, wait

from trainwright.runs.folder import find
from trainwright.runs.steps import saved_step

SSHD = "/usr/sbin/sshd"
CONFIG = """\
HostKey {keys}/host
AuthorizedKeysFile {keys}/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
SetEnv PATH={bin}:{python}:/usr/bin:/bin
"""


@pytest.fixture
def login(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A login node that is only reached by ssh: an sshd over a pipe, started on the bed's ``ctl`` for each call."""
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        pytest.skip("needs openssh-server and openssh-client")
    keys = tmp_path / "keys"
    keys.mkdir()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    python = Path(sys.executable).parent
    (keys / "sshd").write_text(CONFIG.format(keys=keys, bin=bed.bin, python=python))
    client = tmp_path / "client" / "ssh"
    client.parent.mkdir()
    proxy = f"{bed.folder}/on ctl {SSHD} -i -f {keys}/sshd"
    client.write_text(
        f"#!/bin/bash\nexec /usr/bin/ssh -F none -i {keys}/user -o StrictHostKeyChecking=no "
        f"-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o 'ProxyCommand={proxy}' \"$@\"\n"
    )
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{python}:/usr/bin:/bin")  # and not the bed's own commands
    monkeypatch.setenv("TRAINWRIGHT_RUNS", str(tmp_path / "laptop"))
    return "root@ctl"


def test_a_run_over_ssh(bed: Bed, login: str, tmp_path: Path) -> None:
    storage = tmp_path / "cluster runs"  # a name that every shell on the way must keep whole
    site = {"login": login, "setup": [f"export PATH={Path(sys.executable).parent}:$PATH"]}
    spec = bed.script("far", script="patient.py", site=site, storage=str(storage))
    bed.cli("render", str(spec), "--dir", str(tmp_path / "bundle"))
    bed.cli("submit", str(tmp_path / "bundle"))
    run = Run(find("far", tmp_path / "laptop"))
    run.wait_for("RUNNING")
    wait(lambda: run.status() and "from step 0" in run.log(1), "the first line of the run")
    assert "CANCELLED" in bed.cli("cancel", run.folder.run_id)
    assert "SIGTERM" in bed.cli("logs", run.folder.run_id)
    assert saved_step(run.folder)
    assert not list(run.folder.checkpoints.glob("*/*.pt"))
    bed.cli("resume", run.folder.run_id)
    state = run.wait_for("SUCCEEDED")
    assert state.attempt == 2
    assert (storage / run.folder.run_id / "job.json").exists() is False  # the books are the client's
    assert run.told("finished")[-1]["phase"] == "SUCCEEDED"
