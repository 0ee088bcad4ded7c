"""The moves open to a plan under the cascade accounting, and their values: all pairs, and the best larger sets.

Values are exact. Those of pairs are kept in a table and computed again only where a move may have changed them.
"""

from __future__ import annotations

from covey.matching.jit import Floats, Ints, Longs, called, copy_values, kernel
from covey.planning.aggregation.bits import covered, resemblance, weight
from covey.planning.aggregation.cascade_kernels import Blocks, pair_change
from covey.planning.aggregation.model import Layout
from covey.planning.aggregation.sample import Bytes

INFINITE = float("inf")


@kernel
def refresh(
    layout: Layout,
    blocks: Blocks,
    table: Floats,
    changed: Bytes,
    starts: Longs,
    ratios: Floats,
    alike: bool,
) -> None:
    """Bring the table of candidates up to date after the leaders marked in `changed` did, and clear the marks.

    The pair of ranks (a, b), a < b, of broker v stands at `starts[v] + a · n + b`. Its value is the change of cost for
    each unit of gain, or, if `alike`, minus the similarity of the blocks; infinite if a or b leads no block. A value
    depends on the two blocks and on all that hold them further up, so marks are handed down the tree; but only as far
    up as to the first block that holds both, so pairs that are marked are looked at once more.
    """
    struck = changed.copy()  # leaders whose own blocks changed
    for position in range(layout.order.shape[0]):
        broker = layout.order[position]
        first, end = layout.offsets[broker], layout.offsets[broker + 1]
        size = end - first
        for slot in range(first, end):
            if changed[blocks.label[slot]] or (layout.up[slot] >= 0 and changed[layout.up[slot]]):
                changed[slot] = 1
        for a in range(size):
            for b in range(a + 1, size):
                if not (changed[first + a] or changed[first + b]):
                    continue
                value = INFINITE
                if blocks.label[first + a] == first + a and blocks.label[first + b] == first + b:
                    if not concerned(layout, blocks, struck, first + a, first + b):
                        continue
                    if alike:
                        value = -resemblance(blocks.some, first + a, first + b, table)
                    else:
                        change, gain = pair_change(layout, blocks, table, first + a, first + b)
                        value = change / gain
                ratios[starts[broker] + a * size + b] = value
    for slot in range(changed.shape[0]):
        changed[slot] = 0


@called
def concerned(layout: Layout, blocks: Blocks, struck: Bytes, x: int, y: int) -> bool:
    """Tell whether one of these two blocks changed, or of those that hold them, up to the first that holds both."""
    while True:
        if struck[x] or struck[y]:
            return True
        if layout.up[x] < 0:
            return False
        x, y = blocks.label[layout.up[x]], blocks.label[layout.up[y]]
        if x == y:
            return struck[x] != 0


@called
def many_change(
    layout: Layout, blocks: Blocks, table: Floats, chosen: Ints, count: int, seen: Bytes, rows: Bytes
) -> tuple[float, int]:
    """Return what joining the first `count` blocks of `chosen`, all of one broker, would change. `chosen` is used up;
    `seen` is scratch of zeros, one for each slot, and `rows` of two rows of a bit set."""
    change, gain, before = 0.0, 0, 1
    while True:
        inputs, far = 1 - before, 1
        for byte in range(rows.shape[1]):
            rows[0, byte] = rows[1, byte] = 0
        for number in range(count):
            block = chosen[number]
            inputs += blocks.inputs[block]
            far = max(far, blocks.far[block])
            change -= blocks.cost[block]
            for byte in range(rows.shape[1]):
                single = (rows[1, byte] & ~blocks.some[block, byte]) | (
                    blocks.once[block, byte] & ~rows[0, byte]
                )
                rows[0, byte] |= blocks.some[block, byte]
                rows[1, byte] = single
        if inputs > 1:
            change += far * weight(rows, 1, table)
        gain += count - 1
        if count == 1 or layout.up[chosen[0]] < 0:
            return change, gain
        before, distinct = count, 0
        for number in range(count):
            above = blocks.label[layout.up[chosen[number]]]
            if not seen[above]:
                seen[above] = 1
                chosen[distinct] = above
                distinct += 1
        count = distinct
        for number in range(count):
            seen[chosen[number]] = 0


@kernel
def best_sets(
    layout: Layout,
    blocks: Blocks,
    table: Floats,
    broker: int,
    seen: Bytes,
    rows: Bytes,
    chosen: Ints,
    found: Ints,
) -> float:
    """Find the best of a broker's larger moves: all of its blocks at once, or two with every block they cover together.

    Puts the leaders into `found`, after their number, and returns the change of cost for each unit of gain.
    """
    first, end = layout.offsets[broker], layout.offsets[broker + 1]
    leaders = [slot for slot in range(first, end) if blocks.label[slot] == slot]
    best = INFINITE
    found[0] = 0
    count = len(leaders)
    if count < 3:
        return best
    for number in range(count):
        chosen[number] = leaders[number]
        found[number + 1] = leaders[number]
    change, gain = many_change(layout, blocks, table, chosen, count, seen, rows)
    best, found[0] = change / gain, count
    for a in range(count):
        for b in range(a + 1, count):
            size = 2
            for c in range(count):
                if c not in (a, b) and covered(blocks.some, leaders[a], leaders[b], leaders[c]):
                    chosen[size] = leaders[c]
                    size += 1
            if size == 2 or size == count:
                continue
            chosen[0], chosen[1] = leaders[a], leaders[b]
            members = chosen[:size].copy()
            change, gain = many_change(layout, blocks, table, chosen, size, seen, rows)
            if change / gain < best:
                best, found[0] = change / gain, size
                copy_values(found, 1, members, size)
    return best
