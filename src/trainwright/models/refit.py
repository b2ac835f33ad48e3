"""The same job on another number of ranks: what of a layout stays, what changes, and which numbers are legal.

Takes a layout, a world size and the global batch; gives a layout. Tensor, context and pipeline degrees stay, because
they follow from the model and the machines; data ranks take what is left. Pure: no model, no machine.
"""

from __future__ import annotations

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout, LayoutError


def refit(layout: Layout, world: int, global_batch: int) -> Layout:
    """``layout`` on ``world`` ranks: world = k · pp · cp · tp, for k data ranks that share the same batch.

    ``micro_batches`` becomes as many as the data ranks need for ``global_batch`` sequences. Where that is no whole
    number of micro-batches for each, some ranks get fewer sequences, or an empty micro-batch; the loss is a sum over
    tokens, so its value stays. Raises AnswerNo with the reason and the nearest legal numbers of ranks.
    """
    if world == layout.world_size and layout.global_batch_size == global_batch:
        return layout
    found = _fitted(layout, world, global_batch)
    if isinstance(found, Layout):
        return found
    near = _nearest(layout, world, global_batch)
    raise AnswerNo(
        f"{world} rank{'s' if world != 1 else ''} cannot train what was planned for {layout.world_size} ({layout}): "
        f"{found}",
        f"start {' or '.join(map(str, near))} ranks" if near else "plan again",
    )


def _fitted(layout: Layout, world: int, global_batch: int) -> Layout | str:
    """The layout, or why there is none."""
    fixed = layout.pp * layout.cp * layout.tp
    if world < 1 or world % fixed:
        return f"pp · cp · tp is {fixed}, and the ranks must be a multiple of it"
    data = world // fixed
    if data > global_batch:
        return f"its {data} data ranks are more than the {global_batch} sequences of the global batch"
    if data % layout.dp_shard == 0:
        shard = layout.dp_shard  # whole groups of replicas are gone or new; each still holds the model
    else:
        shard = data
    rounds = -(-global_batch // (layout.micro_batch_size * data))
    if layout.pp > 1 and layout.schedule in ("interleaved", "zero_bubble"):
        rounds = -(-rounds // layout.pp) * layout.pp
    try:
        return layout.with_(
            dp_replicate=data // shard,
            dp_shard=shard,
            zero=layout.zero if shard * layout.cp > 1 else 0,
            micro_batches=rounds,
        )
    except LayoutError as error:
        return str(error)


def _nearest(layout: Layout, world: int, global_batch: int) -> list[int]:
    """The next legal number of ranks below and above."""
    fixed = layout.pp * layout.cp * layout.tp
    at_most = max(global_batch * fixed, world)
    below = range(min(world - 1, at_most) // fixed * fixed, 0, -fixed)
    above = range((world // fixed + 1) * fixed, at_most + 1, fixed)
    found = (
        next((n for n in side if isinstance(_fitted(layout, n, global_batch), Layout)), 0) for side in (below, above)
    )
    return [number for number in found if number]
