"""Paths in a spec: relative to the file that names them, absolute once loaded."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://")
_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*(/[\w.-]+)?$")


def is_remote(location: str) -> bool:
    """True for ``s3://…`` and its like."""
    return bool(_SCHEME.match(location))


def is_local(location: str) -> bool:
    """True for a path of this file system, false for an address or a Hub id. Loaded local paths are absolute."""
    return location.startswith("/")


def _absolute(text: str, info: ValidationInfo) -> str:
    base = (info.context or {}).get("base")
    expanded = os.path.expanduser(text)
    if base is None or os.path.isabs(expanded):
        return os.path.normpath(expanded) if os.path.isabs(expanded) else text
    return os.path.normpath(Path(base) / expanded)


def _local(text: str, info: ValidationInfo) -> str:
    if not text or "\0" in text:
        raise ValueError("is no path; write a path relative to this file")
    return _absolute(text, info)


def _location(text: str, info: ValidationInfo) -> str:
    """A Hub id stays as it is, unless a file or folder of that name stands beside the spec."""
    if not text or "\0" in text:
        raise ValueError("is no path; write a path relative to this file, a Hub id or an s3:// address")
    if is_remote(text):
        return text
    looks_local = text.startswith((".", "/", "~")) or not _HUB_ID.match(text)
    resolved = _absolute(text, info)
    return resolved if looks_local or os.path.exists(resolved) else text


#: A path of this file system.
LocalPath = Annotated[str, AfterValidator(_local)]
#: A path, a Hub id or an address.
Location = Annotated[str, AfterValidator(_location)]
