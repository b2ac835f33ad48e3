"""Which plain text is held out: whole files, chosen by their content before any of them is read.

Takes names, sizes and hashes; gives the byte from which a file is held out. A long file becomes many documents, and
neighbours must not end up on both sides of the split; nor may the choice depend on how long a sequence is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_HASH_SPACE = 1 << 64
_TOO_MUCH = 4  # times what is to be held out: a larger file is not held out whole
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of plain text; ``read`` is how many of its bytes its source takes at most."""

    source: int
    file: int
    size: int
    read: int
    sha256: str


def held_out_from(
    files: Sequence[TextFile], fraction: float, total: int, *, alone: bool
) -> dict[tuple[int, int], int]:
    """(source, file) → first byte that is held out; 0 for a whole file, and no entry for one that is trained on.

    A file is held out whole or not at all, by the hash of its bytes. One that makes up too much of the ``total``
    bytes of all sources, so that it cannot be spared, gives its last ``fraction`` instead. ``alone``: there is no
    other source that something could be held out of; then the file with the lowest hash is, if chance chose none.
    """
    if not fraction or not files:
        return {}
    limit = min(_TOO_MUCH * fraction, _HALF) * total
    found = {
        (one.source, one.file): one.size - max(1, round(fraction * min(one.read, one.size)))
        for one in files
        if one.size > limit and one.size > 1
    }
    small = [one for one in files if (one.source, one.file) not in found and one.size]
    chosen = {one.sha256 for one in small if int(one.sha256[:16], 16) < fraction * _HASH_SPACE}
    contents = sorted({one.sha256 for one in small})
    if alone and not found:
        chosen = (chosen or set(contents[:1])) - set(contents[-1:])  # something must be left to train on
    return found | {(one.source, one.file): 0 for one in small if one.sha256 in chosen}
