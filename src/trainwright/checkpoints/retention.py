"""Which checkpoints may go. Pure: takes what is known of each, gives names; deletes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def surplus(
    good: Collection[int],
    damaged: Iterable[int],
    *,
    keep: int,
    keep_every: int | None,
    verified: int,
    best: int | None = None,
) -> list[int]:
    """Steps that may be deleted, oldest first, given that ``verified`` has just been read back and is whole.

    The newest ``keep`` good ones stay, every good one whose step is a multiple of ``keep_every``, and the ``best``
    one, which becomes the model. A damaged one
    counts for nothing and goes once it is older than all that stay by count. Nothing newer than ``verified`` goes,
    and nothing at all if ``verified`` is not among the good.
    """
    if verified not in good:
        return []
    newest = sorted((step for step in good if step <= verified), reverse=True)[: max(1, keep)]
    oldest_kept = newest[-1]
    old_good = [
        step for step in good if step < oldest_kept and step != best and not (keep_every and step % keep_every == 0)
    ]
    old_damaged = [step for step in damaged if step < oldest_kept]
    return sorted({*old_good, *old_damaged})
