"""Where Slurm's commands are run: on this machine, over ssh, or in a login pod. Waits are bounded.

Takes argument vectors and gives what they printed. It knows nothing of what a command means. Sites write the place as
``slurm.login``: empty, a host for ssh, or ``kubectl://NAMESPACE/POD`` for the login pod of Slinky. The URL of a
slurmrestd stands there too, but is asked by ``rest``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from trainwright.errors import InputError, Problem, SystemUnreachable

#: Variables that change what Slurm's commands do or print. ``SBATCH_PARTITION`` in a shell start-up file would
#: silently override the file that was shown; a job that submits another would hand its own ``SLURM_*`` on.
_STEERING = ("SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_", "SLURM_", "TORCHELASTIC_", "PET_")
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS")
_CONNECT_SECONDS = 10
_POD_SCHEME = "kubectl://"
#: What kubectl adds when a command has run and failed.
_ENDED_IN_POD = re.compile(r"^command terminated with exit code \d+\n?", re.M)


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    out: str
    err: str


class Transport(Protocol):
    """Runs commands where Slurm is."""

    @property
    def name(self) -> str:
        """Where that is, for messages."""

    def run(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        seconds: float = 60.0,
    ) -> Done:
        """Run to the end. ``environment`` is added. SystemUnreachable when it cannot be started or takes too long."""


@dataclass(frozen=True)
class Local:
    """This machine."""

    name: str = "this machine"

    def run(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        seconds: float = 60.0,
    ) -> Done:
        """See ``Transport.run``."""
        variables = {**clean(os.environ), **(environment or {})}
        return _run(argv, variables, cwd if cwd and Path(cwd).is_dir() else None, stdin, seconds, self.name)


@dataclass(frozen=True)
class Ssh:
    """A login node. The user's ssh configuration applies; nothing may ask for a password."""

    host: str

    @property
    def name(self) -> str:
        """The host."""
        return self.host

    def run(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        seconds: float = 60.0,
    ) -> Done:
        """See ``Transport.run``. The remote shell sees one string: every word is quoted for it."""
        words = ["env", *(f"{name}={value}" for name, value in (environment or {}).items()), *argv]
        text = shlex.join(words)
        if cwd is not None:
            text = f"cd {shlex.quote(cwd)} 2>/dev/null; {text}"
        options = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}", "-T")
        done = _run(["ssh", *options, self.host, "--", text], dict(os.environ), None, stdin, seconds, "this machine")
        if done.code == 255:  # ssh's own failure
            raise SystemUnreachable(
                f"{self.host} cannot be reached over ssh: {last_line(done.err)}", f"try: ssh {self.host} true"
            )
        if done.code == 127:
            raise _no_command(argv[0], self.host)
        return done


@dataclass(frozen=True)
class Pod:
    """A pod that has Slurm's commands, such as Slinky's login pods. ``pod`` is what kubectl takes: ``NAME`` or
    ``deployment/NAME``. Your kubeconfig applies; ``context`` and ``container`` are kubectl's defaults when empty.
    """

    namespace: str
    pod: str
    context: str = ""
    container: str = ""

    @property
    def name(self) -> str:
        """The pod."""
        return f"{self.namespace}/{self.pod}"

    def run(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        seconds: float = 60.0,
    ) -> Done:
        """See ``Transport.run``. No shell is on the way: every word arrives as it is."""
        words = ["env", *(f"{name}={value}" for name, value in (environment or {}).items()), *argv]
        if cwd is not None:
            words = ["sh", "-c", 'cd "$0" 2>/dev/null; exec "$@"', cwd, *words]
        where = [*(["--context", self.context] if self.context else []), "--namespace", self.namespace]
        inside = ["--container", self.container] if self.container else []
        call = ["kubectl", *where, "exec", "--stdin", self.pod, *inside, "--", *words]
        done = _run(call, dict(os.environ), None, stdin, seconds, "this machine")
        if done.code == 0:
            return done
        if done.code == 127:
            raise _no_command(argv[0], f"the pod {self.name}")
        if not _ENDED_IN_POD.search(done.err):  # kubectl's own failure: the command has not run, or its end was lost
            raise SystemUnreachable(
                f"{self.name} cannot be reached by kubectl exec: {last_line(done.err)}",
                f"try: kubectl -n {self.namespace} exec {self.pod} -- true",
            )
        return Done(done.code, done.out, _ENDED_IN_POD.sub("", done.err))


def transport_for(login: str | None) -> Transport:
    """The place that ``slurm.login`` names: this machine when it is empty. InputError for a URL that names none."""
    if not login:
        return Local()
    if not login.startswith(_POD_SCHEME):
        if login.startswith("-"):  # ssh would take it for an option
            raise InputError([Problem("", field="slurm.login", what=f"is {login!r}", instead="name a host")])
        return Ssh(login)
    url = urlsplit(login)
    options = parse_qs(url.query)
    pod = unquote(url.path.strip("/"))
    if (
        not url.netloc
        or not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", pod)
        or options.keys() - {"context", "container"}
    ):
        instead = "write kubectl://NAMESPACE/POD, with ?context= and &container= where kubectl's own are not meant"
        raise InputError(
            [Problem("", field="slurm.login", what=f"is {login!r}, which names no pod", instead=instead)]
        )
    chosen = {name: values[-1] for name, values in options.items()}
    return Pod(url.netloc, pod, chosen.get("context", ""), chosen.get("container", ""))


def over_rest(login: str | None) -> bool:
    """True for the URL of a slurmrestd, which runs no commands: the run's folder must be seen from here."""
    return bool(login) and str(login).startswith(("http://", "https://"))


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what would steer Slurm's commands, or a launcher inside the job, behind the user's back."""
    launcher = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {
        name: value
        for name, value in environment.items()
        if name in _KEPT or not (name.startswith(_STEERING) or name in launcher or name.startswith("TRAINWRIGHT_"))
    }


def last_line(text: str) -> str:
    """The last line that says anything."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def _run(
    argv: Sequence[str], environment: dict[str, str], cwd: str | None, stdin: bytes | None, seconds: float, where: str
) -> Done:
    try:
        done = subprocess.run(
            list(argv),
            env=environment,
            cwd=cwd,
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise _no_command(argv[0], where) from None
    except subprocess.TimeoutExpired:
        what = f"{argv[0]} on {where} did not answer within {seconds:.0f} s"
        raise SystemUnreachable(what, "try again; `scontrol ping` shows whether the controller lives") from None
    except OSError as error:
        raise SystemUnreachable(f"{argv[0]} cannot be started: {error.strerror}") from error
    return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def _no_command(name: str, where: str) -> SystemUnreachable:
    way_out = "load Slurm's module, or name a login node: slurm.login in the site file"
    return SystemUnreachable(f"there is no {name} on {where}", way_out)
