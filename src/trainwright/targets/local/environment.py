"""The environment of a stage: the submitter's own, the spec's ``env``, its secrets resolved, and the run's names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.runs.folder import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE
from trainwright.spec.model import RunSpec
from trainwright.spec.section import SecretRef
from trainwright.targets.local.process import MARK_VARIABLE

#: What torchrun sets for its workers. Inherited from an outer job, it would make ours join that job.
_LAUNCHER_VARIABLES = (
    "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
_OWN_VARIABLES = (MARK_VARIABLE, RUN_DIR_VARIABLE, ATTEMPT_VARIABLE)


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what another launcher, or another run that this one is started from, has left in it."""
    foreign = {*_LAUNCHER_VARIABLES, *_OWN_VARIABLES}
    return {k: v for k, v in environment.items() if k not in foreign and not k.startswith("TORCHELASTIC_")}


def stage_environment(
    spec: RunSpec, environment: Mapping[str, str], run_dir: Path, attempt: int, mark: str
) -> dict[str, str]:
    """Variables of one stage. Raises InputError with every secret that cannot be found here."""
    return {
        # Threads that spin while they wait take the core from the thread they wait for as soon as anything else runs
        # here: generating one sample took minutes instead of seconds beside other work.
        "OMP_WAIT_POLICY": "PASSIVE",
        **clean(environment),
        "PYTHONUNBUFFERED": "1",  # a log that lags behind is no help when a process hangs
        **spec.env,
        **resolve_secrets(spec, environment),
        RUN_DIR_VARIABLE: str(run_dir),
        ATTEMPT_VARIABLE: str(attempt),
        MARK_VARIABLE: mark,
    }


def resolve_secrets(spec: RunSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """Values of the spec's secrets. Raises InputError with every one that is missing; never shows a value."""
    values, problems = {}, []
    for name, reference in spec.secrets.items():
        value, what, instead = _look_up(reference, environment)
        if value is None:
            problems.append(Problem("", field=f"secrets.{name}", what=what, instead=instead))
        else:
            values[name] = value
    if problems:
        raise InputError(problems)
    return values


def _look_up(reference: SecretRef, environment: Mapping[str, str]) -> tuple[str | None, str, str]:
    if reference.env is not None:
        value = environment.get(reference.env)
        return value, f"${reference.env} is not set", f"export {reference.env} in the shell that submits"
    if reference.file is not None:
        try:
            text = Path(reference.file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "is not text in UTF-8"
            return None, f"{reference.file} cannot be read: {why}", "put the secret there, or name another place"
        if "\0" in text:
            return None, f"{reference.file} holds a zero byte", "put nothing but the secret there"
        return text, "", ""
    what = "is a Kubernetes Secret, which target local cannot read"
    return None, what, "name an environment variable (env) or a file"
