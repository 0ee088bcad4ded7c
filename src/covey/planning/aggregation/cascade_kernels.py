"""Merging and taking apart under the cascade accounting, on slots.

A block on the link above broker v is a ring of slots of v, led by its smallest. At the leader stand its bit sets, the
number of inputs it was made of, the hops to its furthest member (0 throughout when the delay is constant) and what it
costs: r · u if it has two inputs or more.

    join    two blocks of v, and the blocks that hold them on every link above, up to where they already were one
    detach  an input from its block at v and on a number of links above; where they stay together, higher up, the block
            has one input more

Each undoes the other. Both answer with (change of cost, change of gain).
"""

from __future__ import annotations

from typing import NamedTuple

from covey.matching.jit import Floats, Ints, called, kernel
from covey.planning.aggregation.bits import add_filter, join_rows, joined_once, weight
from covey.planning.aggregation.model import Layout
from covey.planning.aggregation.sample import Bytes


class Blocks(NamedTuple):
    """All blocks of a plan, by slot."""

    label: Ints  # the leader of each slot's block
    ring: Ints  # the next slot of the same block
    some: Bytes
    once: Bytes
    inputs: Ints
    far: Ints
    cost: Floats


@called
def price(blocks: Blocks, block: int, table: Floats) -> float:
    """Return r · u of a block as its record stands, 0 if it only passes through."""
    if blocks.inputs[block] < 2:
        return 0.0
    return max(1, blocks.far[block]) * weight(blocks.once, block, table)


@called
def pair_change(layout: Layout, blocks: Blocks, table: Floats, x: int, y: int) -> tuple[float, int]:
    """Return what joining two blocks of a broker, by their leaders, would change."""
    change, gain, inputs = 0.0, 0, blocks.inputs[x] + blocks.inputs[y]
    while True:
        change -= blocks.cost[x] + blocks.cost[y]
        if inputs > 1:
            far = max(1, blocks.far[x], blocks.far[y])
            change += far * joined_once(blocks.some, blocks.once, x, y, table)
        gain += 1
        if layout.up[x] < 0:
            return change, gain
        x, y = blocks.label[layout.up[x]], blocks.label[layout.up[y]]
        if x == y:
            if blocks.inputs[x] == 2:
                change -= blocks.cost[x]
            return change, gain
        inputs = blocks.inputs[x] + blocks.inputs[y] - 1


@kernel
def join(layout: Layout, blocks: Blocks, table: Floats, x: int, y: int, changed: Bytes) -> tuple[float, int]:
    """Join two blocks of a broker, by their leaders, and mark the leaders of blocks that changed."""
    change, gain, inputs = 0.0, 0, blocks.inputs[x] + blocks.inputs[y]
    while True:
        keep, gone = min(x, y), max(x, y)
        up_keep, up_gone = layout.up[keep], layout.up[gone]
        change -= blocks.cost[keep] + blocks.cost[gone]
        slot = gone
        while True:
            blocks.label[slot] = keep
            slot = blocks.ring[slot]
            if slot == gone:
                break
        blocks.ring[keep], blocks.ring[gone] = blocks.ring[gone], blocks.ring[keep]
        join_rows(blocks.some, blocks.once, keep, gone)
        blocks.inputs[keep] = inputs
        blocks.far[keep] = max(blocks.far[keep], blocks.far[gone])
        blocks.cost[keep] = price(blocks, keep, table)
        change += blocks.cost[keep]
        gain += 1
        changed[keep] = changed[gone] = 1
        if up_keep < 0:
            return change, gain
        x, y = blocks.label[up_keep], blocks.label[up_gone]
        if x == y:
            blocks.inputs[x] -= 1
            if blocks.inputs[x] == 1:
                change -= blocks.cost[x]
                blocks.cost[x] = 0.0
            changed[x] = 1
            return change, gain
        inputs = blocks.inputs[x] + blocks.inputs[y] - 1


@called
def clear(blocks: Blocks, slot: int) -> None:
    """Make a slot the leader of a block without members."""
    blocks.far[slot] = 0
    for byte in range(blocks.some.shape[1]):
        blocks.some[slot, byte] = 0
        blocks.once[slot, byte] = 0


@called
def take_out(
    layout: Layout, blocks: Blocks, filters: Bytes, hops: Ints, slot: int, apart: Bytes
) -> tuple[int, int]:
    """Make two blocks of one: the subscribers marked `apart`, and the rest. Return their leaders; inputs and costs are
    left to the caller."""
    first, second = -1, -1
    last_first, last_second = -1, -1
    start = blocks.label[slot]
    at = start
    lead_first, lead_second = layout.up.shape[0], layout.up.shape[0]
    while True:  # chain the slots into two lists
        following = blocks.ring[at]
        if apart[layout.subscriber[at]]:
            if last_first >= 0:
                blocks.ring[last_first] = at
            else:
                first = at
            last_first = at
            lead_first = min(lead_first, at)
        else:
            if last_second >= 0:
                blocks.ring[last_second] = at
            else:
                second = at
            last_second = at
            lead_second = min(lead_second, at)
        at = following
        if at == start:
            break
    blocks.ring[last_first], blocks.ring[last_second] = first, second
    clear(blocks, lead_first)
    clear(blocks, lead_second)
    for lead in (lead_first, lead_second):
        at = lead
        while True:
            blocks.label[at] = lead
            add_filter(blocks.some, blocks.once, lead, filters, layout.subscriber[at])
            blocks.far[lead] = max(blocks.far[lead], hops[at])
            at = blocks.ring[at]
            if at == lead:
                break
    return lead_first, lead_second


@called
def detach(
    layout: Layout,
    blocks: Blocks,
    table: Floats,
    filters: Bytes,
    hops: Ints,
    apart: Bytes,
    slot: int,
    links: int,
) -> tuple[float, int, int]:
    """Take the input that holds `slot` out of its block, on the link above its broker and on up to `links` - 1 more.

    The block must have two inputs or more. `apart` is scratch of zeros, one for each subscriber. Returns also a slot of
    the rest: joining the blocks of the two slots restores what was.
    """
    if layout.down[slot] < 0:
        apart[layout.subscriber[slot]] = 1
    else:
        start = blocks.label[layout.down[slot]]
        at = start
        while True:
            apart[layout.subscriber[at]] = 1
            at = blocks.ring[at]
            if at == start:
                break
    change, gain, rest, at = 0.0, 0, -1, slot
    while True:
        whole = blocks.label[at]
        inputs = blocks.inputs[whole] - 1 if rest < 0 else blocks.inputs[whole]
        change -= blocks.cost[whole]
        single, other = take_out(layout, blocks, filters, hops, at, apart)
        blocks.inputs[single], blocks.cost[single] = 1, 0.0
        blocks.inputs[other] = inputs
        blocks.cost[other] = price(blocks, other, table)
        change += blocks.cost[other]
        gain -= 1
        if rest < 0:
            rest = other
        at = layout.up[at]
        if at < 0:
            break
        if -gain == links:
            above = blocks.label[at]
            blocks.inputs[above] += 1
            if blocks.inputs[above] == 2:
                blocks.cost[above] = price(blocks, above, table)
                change += blocks.cost[above]
            break
    for number in range(apart.shape[0]):
        apart[number] = 0
    return change, gain, rest
