"""Models: the configs of well-known models by name, so that planning one needs neither a download nor an account.

Reads ``models.json`` on first use and gives plain rows; ``trainwright.models`` turns them into shapes.
It must not know how a shape is computed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from trainwright.facts.data import read_rows

#: Words that name a tuned variant of the same shape.
_VARIANTS = frozenset({"instruct", "chat", "it", "pt", "hf", "meta"})
_SIZE = re.compile(r"[0-9.]+[mb]|[0-9]{4}")


def find(name: str) -> dict[str, Any] | None:
    """The row of a model by its short name or its Hugging Face id, in any case; None when it is not in the table.

    A row has ``name``, ``config`` and, where known, ``hub``, ``parameters`` and ``published``. Words that do not
    change the shape (Instruct, Chat, it, hf, Base) are ignored.
    """
    key = _index().get(_plain(name))
    return None if key is None else {"name": key, **read_rows("models")[key]}


def names() -> list[str]:
    """Short names of every model in the table."""
    return list(read_rows("models"))


@cache
def _index() -> dict[str, str]:
    rows = read_rows("models")
    index = {_plain(row["hub"]): name for name, row in rows.items() if "hub" in row}
    return {**index, **{_plain(row["hub"].split("/")[-1]): n for n, row in rows.items() if "hub" in row}} | {
        _plain(name): name for name in rows
    }


def _plain(name: str) -> str:
    """Lower case, one kind of separator, without the words of tuned variants; an owner before ``/`` is kept."""
    owner, slash, own = name.strip().lower().replace("_", "-").replace(" ", "-").rpartition("/")
    words = own.split("-")
    # "bert-base" and "t5-base" are sizes; a base model beside its tuned variants has another word for its size.
    sized = any(_SIZE.fullmatch(word) for word in words)
    kept = [word for word in words if word not in _VARIANTS and not (sized and word == "base")]
    return owner + slash + "-".join(kept)
