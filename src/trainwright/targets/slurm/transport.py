"""Where Slurm's commands are run: on this machine, or on a login node over ssh. Waits are bounded.

Takes argument vectors and gives what they printed. It knows nothing of what a command means.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainwright.errors import SystemUnreachable

#: Variables that change what Slurm's commands do or print. ``SBATCH_PARTITION`` in a shell start-up file would
#: silently override the file that was shown; a job that submits another would hand its own ``SLURM_*`` on.
_STEERING = ("SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_", "SLURM_", "TORCHELASTIC_", "PET_")
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS")
_CONNECT_SECONDS = 10


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


def transport_for(login: str | None) -> Transport:
    """ssh when the site names a login node, else this machine."""
    return Ssh(login) if login else Local()


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
