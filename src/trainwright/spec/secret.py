"""Secrets by reference: the value is looked up where it is used, and never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.spec.section import SecretRef


def read_secret(reference: SecretRef, field: str, environment: Mapping[str, str] | None = None) -> str:
    """The secret that ``field`` of the spec refers to. InputError says what to do when it is not there."""
    environment = os.environ if environment is None else environment
    if reference.env is not None:
        value = environment.get(reference.env, "")
        what, instead = f"${reference.env} is not set", f"export {reference.env} where this step runs"
    elif reference.file is not None:
        try:
            value, what = Path(reference.file).read_text().strip(), f"{reference.file} is empty"
        except (OSError, UnicodeDecodeError) as error:
            value, what = "", f"{reference.file} cannot be read ({getattr(error, 'strerror', None) or 'no text'})"
        instead = "write the secret, and nothing else, into that file"
    else:
        value, what = "", f"is the Kubernetes Secret {reference.kubernetes}, which is not read from here"
        instead = "name it under secrets, and refer to that variable as env"
    if not value:
        raise InputError([Problem("", field=field, what=what, instead=instead)])
    return value
