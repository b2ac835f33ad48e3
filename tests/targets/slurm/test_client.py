"""Reading what Slurm's commands print, in text and in the JSON of old and new releases; errors that say the way out.

The commands are small shell scripts on the path: the boundary is the process, as it is in use.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import AnswerNo, InputError, SystemUnreachable
from trainwright.targets.slurm.client import Client, job_of_account, job_of_line
from trainwright.targets.slurm.queue import Job, job_of_json
from trainwright.targets.slurm.transport import Done, Local, Pod, Ssh, clean, transport_for

Fake = Callable[..., Client]

#: What `squeue --json` of 22.05.8 printed, cut to the fields that are read and a few that are not.
OLD = {
    "job_id": 12, "name": "demo.train", "job_state": "FAILED", "state_description": "",
    "state_reason": "NonZeroExitCode",
    "nodes": "n[1-2]", "exit_code": 768, "restart_cnt": 1, "submit_time": 1796124609, "start_time": 1796124610,
    "end_time": 1796124611, "partition": "batch",
}  # fmt: skip
#: The same job in the shape that 23.11 and later have: lists, and numbers that may be unset.
NEW = {
    **OLD, "job_state": ["FAILED"],
    "exit_code": {"status": ["ERROR"], "return_code": {"set": True, "infinite": False, "number": 3},
                  "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""}},
    "submit_time": {"set": True, "infinite": False, "number": 1796124609},
    "start_time": {"set": True, "infinite": False, "number": 1796124610},
    "end_time": {"set": True, "infinite": False, "number": 1796124611},
}  # fmt: skip
EXPECTED = Job(
    "12", "demo.train", "FAILED", "NonZeroExitCode", "n[1-2]", 3, None, 1796124609.0, 1796124610.0, 1796124611.0, 1
)  # fmt: skip


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Makes a client whose commands are scripts: ``fake(squeue="echo …")``."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(version: str = "22.05.8", **commands: str) -> Client:
        for name, body in {"sbatch": f'echo "slurm-wlm {version}"', **commands}.items():
            path = tmp_path / name
            path.write_text(f"#!/bin/bash\n{body}\n")
            path.chmod(0o755)
        return Client(Local(), patience=2.0, sleep=lambda seconds: None)

    return make


@pytest.mark.parametrize("values", [OLD, NEW], ids=["22.05", "23.11 and later"])
def test_json_of_old_and_new_releases_is_one_job(values: dict[str, Any]) -> None:
    assert job_of_json(values) == EXPECTED


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"job_state": ["RUNNING", "COMPLETING"]}, "COMPLETING"),
        ({"job_state": "PENDING"}, "PENDING"),
        ({"job_state": ["PENDING", "REQUEUED"]}, "PENDING"),
    ],
)
def test_states_with_flags(changes: dict[str, Any], state: str) -> None:
    assert job_of_json({**NEW, **changes}).state == state


def test_a_wait_status_with_a_signal() -> None:
    assert (job_of_json({**OLD, "exit_code": 9}).exit_code, job_of_json({**OLD, "exit_code": 9}).signal) == (0, 9)


def test_text_of_squeue_and_sacct() -> None:
    line = "12|FAILED|NonZeroExitCode|n[1-2]|1796124610|1796124611|1796124609|a|b"
    assert job_of_line(line).name == "a|b"
    assert job_of_line("7|PENDING|None||N/A|N/A|1796124609|x").reason == ""
    account = job_of_account("12|CANCELLED by 1000|0:15|None assigned|1796124609|Unknown|1796124611|x")
    assert account is not None
    assert (account.state, account.signal, account.nodes, account.started) == ("CANCELLED", 15, "", None)
    assert job_of_account("12.batch|FAILED|1:0|n1|1|2|3|batch") is None
    assert job_of_account("12|OUT_OF_ME+|0:125|n1|1|2|3|x").state == "OUT_OF_MEMORY"  # type: ignore[union-attr]


def test_json_is_asked_for_where_it_filters_and_text_elsewhere(fake: Fake, tmp_path: Path) -> None:
    table = f"""echo "$@" >>{tmp_path}/asked
case "$*" in *--json*) cat <<'X'
{json.dumps({"jobs": [OLD]})}
X
;; *) echo "12|FAILED|NonZeroExitCode|n[1-2]|1796124610|1796124611|1796124609|demo.train";; esac"""
    accounting = "echo '12|FAILED|3:0|n[1-2]|1796124609|1796124610|1796124611|demo.train'"
    for version, used in (
        ("20.11.9", False),
        ("21.08.8", True),
        ("23.11.1", False),
        ("24.05.0", False),
        ("24.11.5", True),
    ):
        (tmp_path / "asked").write_text("")
        assert fake(version, squeue=table, sacct=accounting).jobs(["12"])["12"].exit_code == 3
        assert ("--json" in (tmp_path / "asked").read_text()) is used


def test_a_squeue_whose_json_plugin_is_missing_is_read_as_text(fake: Fake) -> None:
    missing = 'echo "squeue: fatal: JSON plugin load failure" >&2; exit 1'
    body = f'case "$*" in *--json*) {missing};; *) echo "1|RUNNING|None|n1|5|0|4|x";; esac'
    assert fake(squeue=body).jobs(["1"])["1"].state == "RUNNING"


def test_works_without_accounting(fake: Fake) -> None:
    disabled = 'echo "Slurm accounting storage is disabled" >&2; exit 1'
    client = fake(squeue="echo '{\"jobs\": []}'", sacct=disabled)
    assert client.jobs(["1"]) == {}
    client = fake(squeue="exit 0", sacct=disabled, version="20.11")
    assert client.jobs(["1"]) == {}


def test_jobs_that_nobody_knows_are_missing(fake: Fake) -> None:
    unknown = 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1'
    assert fake(squeue=unknown, sacct="exit 0").jobs(["77"]) == {}


def test_a_controller_that_is_away_is_waited_for(fake: Fake, tmp_path: Path) -> None:
    away = f"""n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n+1)) >{tmp_path}/n
[ $n -lt 3 ] && {{ echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2; exit 1; }}
echo '{{"jobs": [{json.dumps(OLD)}]}}'"""
    assert fake(squeue=away).jobs(["12"])["12"].state == "FAILED"


def test_a_controller_that_stays_away_is_an_error_with_a_way_out(fake: Fake) -> None:
    client = fake(
        squeue='echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2; exit 1'
    )
    client.patience = 0.0
    with pytest.raises(SystemUnreachable, match="Unable to contact slurm controller") as told:
        client.jobs(["1"])
    assert told.value.way_out


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("Invalid partition name specified", InputError, "partition"),
        ("Requested node configuration is not available", AnswerNo, "node"),
        ("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", AnswerNo, "limit"),
        ("Invalid account or account/partition combination specified", SystemUnreachable, "account"),
        ("Unable to contact slurm controller (connect failure)", SystemUnreachable, "controller"),
        ("Something that nobody has heard of", AnswerNo, "Something that nobody has heard of"),
    ],
)
def test_a_refusal_is_the_error_that_fits(fake: Fake, said: str, error: type[Exception], words: str) -> None:
    client = fake(sbatch=f'echo "sbatch: error: Batch job submission failed: {said}" >&2; exit 1')
    with pytest.raises(error, match=words):
        client.submit("x.sbatch", folder="/x", name="x", dependency=None, exclude=(), environment={}, cwd=None)


def test_submit_passes_folder_name_dependency_and_excluded_nodes(fake: Fake, tmp_path: Path) -> None:
    client = fake(sbatch=f'printf "%s\\n" "$@" >{tmp_path}/got; echo "$EXTRA" >>{tmp_path}/got; echo "34;bed"')
    got = client.submit(
        "/r/x.sbatch", folder="/r", name="x.train", dependency="afterok:3,singleton", exclude=("n1", "n2"),
        environment={"EXTRA": "1"}, cwd=None,
    )  # fmt: skip
    assert got == "34"
    assert (tmp_path / "got").read_text().split() == [
        "--parsable", "--chdir=/r", "--job-name=x.train", "--dependency=afterok:3,singleton", "--exclude=n1,n2",
        "/r/x.sbatch", "1",
    ]  # fmt: skip


def test_cancelling_what_is_gone_is_no_error_but_a_refusal_is(fake: Fake) -> None:
    gone = 'echo "scancel: error: Kill job error on job id 5: Job/step already completing or completed" >&2; exit 1'
    fake(scancel=gone).cancel(["5"])
    denied = 'echo "scancel: error: Kill job error on job id 5: Access/permission denied" >&2; exit 1'
    with pytest.raises(SystemUnreachable, match="permission denied"):
        fake(scancel=denied).cancel(["5"])


def test_no_slurm_here_names_the_ways_to_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemUnreachable, match=r"there is no squeue.*slurm.login"):
        Client(Local()).transport.run(["squeue"])


def test_a_command_that_hangs_is_given_up(fake: Fake) -> None:
    client = fake(squeue="exec sleep 60")
    with pytest.raises(SystemUnreachable, match="did not answer within"):
        client.transport.run(["squeue"], seconds=0.3)


def test_variables_that_steer_slurm_are_kept_away_from_its_commands() -> None:
    given = {"SBATCH_PARTITION": "x", "SQUEUE_FORMAT": "x", "SLURM_JOB_ID": "1", "SLURM_CONF": "/e", "RANK": "3",
             "TRAINWRIGHT_RUN_DIR": "/r", "PATH": "/bin", "PET_NNODES": "2"}  # fmt: skip
    assert clean(given) == {"SLURM_CONF": "/e", "PATH": "/bin"}


def test_ssh_quotes_every_word_for_the_remote_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/bash\nwhile [ "$1" != -- ]; do shift; done\nexec bash -c "$2"\n')  # as sshd does
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    hostile = ["a b", "$HOME", "'", '"', "x\ny", "*", ""]
    done = Ssh("login1").run(["printf", "%s|", *hostile], environment={"V": "a b"}, cwd="/")
    assert done == Done(0, "|".join(hostile) + "|", "")
    assert (
        Ssh("login1").run(["bash", "-c", 'echo "$V" "$PWD"'], environment={"V": "a b"}, cwd="/usr").out
        == "a b /usr\n"
    )


KUBECTL = """#!/bin/bash
printf '%s\\n' "$@" >"$(dirname "$0")/got"
while [ "$1" != -- ]; do shift; done; shift
"$@"; code=$?  # as kubectl exec does: no shell, and a line of its own about a failure
[ $code = 0 ] || echo "command terminated with exit code $code" >&2
exit $code
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubectl"
    path.write_text(KUBECTL)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return path


def test_a_login_pod_gets_every_word_as_it_is(kubectl: Path) -> None:
    pod = transport_for("kubectl://slurm/deployment/login?context=arn:aws:eks:x/y&container=login")
    hostile = ["a b", "$HOME", "'", '"', "x\ny", "*", "", "--"]
    done = pod.run(["printf", "%s|", *hostile], environment={"V": "a b"}, cwd="/")
    assert done == Done(0, "|".join(hostile) + "|", "")
    words = (kubectl.parent / "got").read_text().split("\n")
    head = ["--context", "arn:aws:eks:x/y", "--namespace", "slurm", "exec", "--stdin", "deployment/login"]
    assert words[:10] == [*head, "--container", "login", "--"]
    assert pod.run(["bash", "-c", 'echo "$V" "$PWD"'], environment={"V": "a b"}, cwd="/usr").out == "a b /usr\n"
    assert pod.run(["cat"], stdin=b"bytes").out == "bytes"
    assert pod.name == "slurm/deployment/login"


def test_a_command_that_fails_in_a_pod_is_its_own_failure(kubectl: Path) -> None:
    pod = Pod("slurm", "login-0")
    assert pod.run(["bash", "-c", "echo wrong >&2; exit 3"]) == Done(3, "", "wrong\n")
    with pytest.raises(SystemUnreachable, match="there is no squeue-x on the pod slurm/login-0"):
        pod.run(["squeue-x"])


@pytest.mark.parametrize(
    "said",
    [
        'Error from server (NotFound): pods "login-0" not found',
        'Error from server (Forbidden): pods "login-0" is forbidden: User "ada" cannot create resource "pods/exec"',
        "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout",
        "error: You must be logged in to the server (Unauthorized)",
    ],
)
def test_what_kubectl_itself_says_is_one_clear_error(kubectl: Path, said: str) -> None:
    kubectl.write_text(f"#!/bin/bash\necho '{said}' >&2\nexit 1\n")
    with pytest.raises(SystemUnreachable, match="cannot be reached by kubectl exec") as told:
        Client(Pod("slurm", "login-0")).jobs(["1"])
    assert said in str(told.value)
    assert told.value.way_out == "try: kubectl -n slurm exec login-0 -- true"


@pytest.mark.parametrize(
    "login",
    ["kubectl://slurm", "kubectl:///pod", "kubectl://a/b/c/d", "kubectl://a/-x", "kubectl://a/b?node=c", "-oX"],
)
def test_a_login_that_names_nothing_is_bad_input(login: str) -> None:
    with pytest.raises(InputError, match=r"slurm.login"):
        transport_for(login)


def test_an_unreachable_host_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/bash\necho "ssh: connect to host login1 port 22: Connection timed out" >&2\nexit 255\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SystemUnreachable, match=r"login1 cannot be reached over ssh: .*timed out"):
        Ssh("login1").run(["squeue"])
    assert subprocess.run(["true"], check=False).returncode == 0
