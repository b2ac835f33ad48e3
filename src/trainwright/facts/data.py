"""Reading the fact tables that lie beside this file: JSON, because it parses an order of magnitude faster than YAML.

Takes a table's name and gives its header and its rows by key. It knows nothing of what the rows mean.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


@cache
def read_file(name: str) -> dict[str, Any]:
    """All of ``<name>.json``: its header (``about``, ``source``, ``date`` …) and ``rows``, not to be changed."""
    content: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    return content


def read_rows(name: str) -> dict[str, dict[str, Any]]:
    """Rows of ``<name>.json`` by key, in the file's order."""
    rows: dict[str, dict[str, Any]] = read_file(name)["rows"]
    return rows


@cache
def rows_of_kind(name: str, *kinds: str) -> dict[str, dict[str, Any]]:
    """Those rows of ``<name>.json`` whose ``kind`` is one of ``kinds``, not to be changed."""
    return {key: row for key, row in read_rows(name).items() if row.get("kind") in kinds}


def normalise(name: str) -> str:
    """How names are compared: lower case, with hyphens (``A100_80GB`` is ``a100-80gb``)."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")
