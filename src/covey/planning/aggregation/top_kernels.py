"""Merging and taking apart under the top accounting, on the final blocks alone.

A plan is a partition of the subscribers, merged as early as possible; a block is a ring of subscribers led by the
smallest. `touch` are the brokers whose upper link carries the block: the ways of all members. `full` are those with
the whole block below: the way from the lowest common broker to the root, whose length is that broker's depth. Both
are bit sets over brokers, and joining is union of the one and intersection of the other. Joining two blocks saves a
filter on each link that carries both.
"""

from __future__ import annotations

from typing import NamedTuple

from covey.matching.jit import Floats, Ints, called, copy_values, kernel
from covey.planning.aggregation.bits import add_filter, covered, join_rows, joined_once, resemblance, weight
from covey.planning.aggregation.sample import Bytes

INFINITE = float("inf")


class Groups(NamedTuple):
    """The final blocks, by subscriber; `deep` is the depth of the deepest access broker, 0 for a constant delay."""

    label: Ints
    ring: Ints
    some: Bytes
    once: Bytes
    touch: Bytes
    full: Bytes
    deep: Ints
    size: Ints
    cost: Floats


class Ways(NamedTuple):
    """What is fixed: each filter's bit set, each subscriber's way as a bit set of brokers, and its depth."""

    filters: Bytes
    way: Bytes
    deep: Ints
    ones: Ints  # the number of ones in each byte


@called
def price(groups: Groups, ways: Ways, table: Floats, block: int) -> float:
    """Return r · u of a block as its record stands."""
    if groups.size[block] < 2:
        return 0.0
    depth = 0
    for byte in range(groups.full.shape[1]):
        depth += ways.ones[groups.full[block, byte]]
    return max(1, groups.deep[block] - depth) * weight(groups.once, block, table)


@called
def pair_change(groups: Groups, ways: Ways, table: Floats, x: int, y: int) -> tuple[float, int]:
    """Return what joining two blocks would change."""
    depth, gain = 0, 0
    for byte in range(groups.full.shape[1]):
        depth += ways.ones[groups.full[x, byte] & groups.full[y, byte]]
        gain += ways.ones[groups.touch[x, byte] & groups.touch[y, byte]]
    far = max(1, max(groups.deep[x], groups.deep[y]) - depth)
    change = far * joined_once(groups.some, groups.once, x, y, table)
    return change - groups.cost[x] - groups.cost[y], gain


@kernel
def join(groups: Groups, ways: Ways, table: Floats, x: int, y: int, changed: Bytes) -> tuple[float, int]:
    """Join two blocks and mark them in `changed`."""
    keep, gone = min(x, y), max(x, y)
    gain = 0
    for byte in range(groups.full.shape[1]):
        gain += ways.ones[groups.touch[keep, byte] & groups.touch[gone, byte]]
        groups.touch[keep, byte] |= groups.touch[gone, byte]
        groups.full[keep, byte] &= groups.full[gone, byte]
    at = gone
    while True:
        groups.label[at] = keep
        at = groups.ring[at]
        if at == gone:
            break
    groups.ring[keep], groups.ring[gone] = groups.ring[gone], groups.ring[keep]
    join_rows(groups.some, groups.once, keep, gone)
    groups.size[keep] += groups.size[gone]
    groups.deep[keep] = max(groups.deep[keep], groups.deep[gone])
    change = -groups.cost[keep] - groups.cost[gone]
    groups.cost[keep] = price(groups, ways, table, keep)
    changed[keep] = changed[gone] = 1
    return change + groups.cost[keep], gain


@called
def start(groups: Groups, ways: Ways, subscriber: int) -> None:
    """Make a subscriber a block of its own."""
    groups.label[subscriber] = groups.ring[subscriber] = subscriber
    groups.size[subscriber], groups.cost[subscriber] = 1, 0.0
    groups.deep[subscriber] = ways.deep[subscriber]
    for byte in range(ways.filters.shape[1]):
        groups.some[subscriber, byte] = groups.once[subscriber, byte] = ways.filters[subscriber, byte]
    for byte in range(ways.way.shape[1]):
        groups.touch[subscriber, byte] = groups.full[subscriber, byte] = ways.way[subscriber, byte]


@called
def detach(groups: Groups, ways: Ways, table: Floats, subscriber: int) -> tuple[float, int, int]:
    """Take a subscriber out of its block, which must have two members or more; return also the rest's leader."""
    whole = groups.label[subscriber]
    change, gain = -groups.cost[whole], 0
    for byte in range(ways.way.shape[1]):
        gain += ways.ones[groups.touch[whole, byte]] - ways.ones[ways.way[subscriber, byte]]
    before, lead = subscriber, groups.ring[subscriber]
    at = lead
    while at != subscriber:
        before, lead, at = at, min(lead, at), groups.ring[at]
    groups.ring[before] = groups.ring[subscriber]
    start(groups, ways, subscriber)
    size, at, following = 0, lead, groups.ring[lead]
    while True:
        if size == 0:
            start(groups, ways, lead)
        else:
            add_filter(groups.some, groups.once, lead, ways.filters, at)
            groups.deep[lead] = max(groups.deep[lead], ways.deep[at])
            for byte in range(ways.way.shape[1]):
                groups.touch[lead, byte] |= ways.way[at, byte]
                groups.full[lead, byte] &= ways.way[at, byte]
        groups.label[at] = lead
        groups.ring[at] = following
        size += 1
        at, following = following, groups.ring[following]
        if at == lead:
            break
    groups.size[lead] = size
    groups.cost[lead] = price(groups, ways, table, lead)
    for byte in range(ways.way.shape[1]):
        gain -= ways.ones[groups.touch[lead, byte]]
    return change + groups.cost[lead], gain, lead


@kernel
def refresh(groups: Groups, ways: Ways, table: Floats, changed: Bytes, ratios: Floats, alike: bool) -> None:
    """Bring the table of candidates up to date after the blocks marked in `changed` did, and clear the marks.

    The pair (a, b), a < b, stands at `a · n + b`, with the value that the cascade's table has.
    """
    count = groups.label.shape[0]
    for a in range(count):
        for b in range(a + 1, count):
            if not (changed[a] or changed[b]):
                continue
            value = INFINITE
            if groups.label[a] == a and groups.label[b] == b:
                if alike:
                    value = -resemblance(groups.some, a, b, table)
                else:
                    change, gain = pair_change(groups, ways, table, a, b)
                    value = change / gain
            ratios[a * count + b] = value
    for number in range(count):
        changed[number] = 0


@called
def many_change(
    groups: Groups, ways: Ways, table: Floats, chosen: Ints, count: int, rows: Bytes, paths: Bytes
) -> tuple[float, int]:
    """Return what joining several blocks would change; `rows` and `paths` are scratch of two rows each."""
    change, deep, depth, gain = 0.0, 0, 0, 0
    for byte in range(rows.shape[1]):
        rows[0, byte] = rows[1, byte] = 0
    for byte in range(paths.shape[1]):
        paths[0, byte], paths[1, byte] = 0, 255
    for number in range(count):
        block = chosen[number]
        change -= groups.cost[block]
        deep = max(deep, groups.deep[block])
        for byte in range(rows.shape[1]):
            single = (rows[1, byte] & ~groups.some[block, byte]) | (groups.once[block, byte] & ~rows[0, byte])
            rows[0, byte] |= groups.some[block, byte]
            rows[1, byte] = single
        for byte in range(paths.shape[1]):
            gain += ways.ones[groups.touch[block, byte]]
            paths[0, byte] |= groups.touch[block, byte]
            paths[1, byte] &= groups.full[block, byte]
    for byte in range(paths.shape[1]):
        gain -= ways.ones[paths[0, byte]]
        depth += ways.ones[paths[1, byte]]
    return change + max(1, deep - depth) * weight(rows, 1, table), gain


@kernel
def best_sets(
    groups: Groups, ways: Ways, table: Floats, rows: Bytes, paths: Bytes, chosen: Ints, found: Ints
) -> float:
    """Find the best of the larger moves: all blocks on the link above some broker, or two with all they cover."""
    count = groups.label.shape[0]
    leaders = [number for number in range(count) if groups.label[number] == number]
    best = INFINITE
    found[0] = 0
    for broker in range(8 * paths.shape[1]):
        size = 0
        for block in leaders:
            if groups.touch[block, broker // 8] >> (broker % 8) & 1:
                chosen[size] = block
                size += 1
        if size > 2:
            change, gain = many_change(groups, ways, table, chosen, size, rows, paths)
            if change / gain < best:
                best, found[0] = change / gain, size
                copy_values(found, 1, chosen, size)
    for a in range(len(leaders)):
        for b in range(a + 1, len(leaders)):
            chosen[0], chosen[1] = leaders[a], leaders[b]
            size = 2
            for c in range(len(leaders)):
                if c not in (a, b) and covered(groups.some, leaders[a], leaders[b], leaders[c]):
                    chosen[size] = leaders[c]
                    size += 1
            if size == 2:
                continue
            change, gain = many_change(groups, ways, table, chosen, size, rows, paths)
            if change / gain < best:
                best, found[0] = change / gain, size
                copy_values(found, 1, chosen, size)
    return best
