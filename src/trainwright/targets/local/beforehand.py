"""What can be known before a run is started, told here, where the user looks, not in a log minutes later.

Takes spec and bundle; raises InputError. It runs nothing of the user's script; this interpreter is the one that will.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.spec.model import RunSpec
from trainwright.targets.local.environment import resolve_secrets
from trainwright.targets.local.stages import NAME, TRAIN, Settings


def refuse_beforehand(spec: RunSpec, bundle: Path, environment: Mapping[str, str]) -> None:
    """InputError for secrets that cannot be found here, and for an own script that cannot be started."""
    resolve_secrets(spec, environment)
    if TRAIN in Settings.read(bundle / NAME).stages:
        refuse_broken_script(spec)


def refuse_broken_script(spec: RunSpec) -> None:
    """InputError for a ``train.script`` that is missing or has a syntax error, with its line."""
    if spec.train is None:
        return
    path = Path(spec.train.script)
    if not path.exists():
        raise InputError([Problem(str(path), field="train.script", what="no such file", instead="name your script")])
    if path.suffix != ".py" or not path.is_file():  # a folder with __main__.py, an archive: Python's own affair
        return
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        what, line, column = f"cannot be read: {error.strerror}", 0, 0
    except SyntaxError as error:
        what, line, column = f"is no Python: {error.msg}", error.lineno or 0, max(error.offset or 0, 0)
    except ValueError as error:  # a zero byte
        what, line, column = f"is no Python: {error}", 0, 0
    else:
        return
    raise InputError([Problem(str(path), line, column, field="train.script", what=what, instead="mend it first")])
