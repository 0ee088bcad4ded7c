"""Random moves on a plan, accepted as in simulated annealing: joins, and taking apart.

The energy is cost + penalty · max(0, theta - gain). Each proposal is carried out, judged, and undone if refused:
joining and detaching undo each other exactly. `totals` holds cost and gain of the plan, then the cost of the best
plan with a gain of theta, whose labels are kept in `best`. Every proposal uses one row of `draws`, numbers in [0, 1).
"""

from __future__ import annotations

import math

import numpy as np

from covey.matching.jit import Floats, Ints, called, copy_values, kernel
from covey.planning.aggregation import cascade_kernels as cascade
from covey.planning.aggregation import top_kernels as top
from covey.planning.aggregation.cascade_kernels import Blocks
from covey.planning.aggregation.model import Layout
from covey.planning.aggregation.sample import Bytes
from covey.planning.aggregation.top_kernels import Groups, Ways

DRAWS = 7  # numbers that one proposal uses
COST, GAIN, BEST = 0, 1, 2  # places in `totals`

# Shares of the kinds of proposals.
NEAR = 0.5  # that a partner is one of the most similar
RELOCATE = 0.5  # of pairs apart: move one input over, and not join the blocks
ALL_LINKS = 0.6  # of inputs taken out: on all links up to the root
DISSOLVE = 0.15  # of pairs together: take all inputs apart
BRANCH = (
    0.45  # of pairs together, under top: up to this from DISSOLVE, take out all who are below some broker
)

join_cascade, detach_cascade, pair_cascade = cascade.join, cascade.detach, cascade.pair_change
join_top, detach_top, pair_top = top.join, top.detach, top.pair_change


@called
def accepted(
    totals: Floats, change: float, gain: int, theta: int, temperature: float, penalty: float, draw: float
) -> bool:
    """Decide on a change, and enter it into the totals if it is taken."""
    before = penalty * max(0.0, theta - totals[GAIN])
    after = penalty * max(0.0, theta - totals[GAIN] - gain)
    worse = change + after - before
    if worse > 0.0 and draw >= math.exp(-worse / temperature):
        return False
    totals[COST] += change
    totals[GAIN] += gain
    return True


@called
def pair_of_slots(layout: Layout, places: Ints, near: Ints, draw: Floats) -> tuple[int, int]:
    """Return two slots of one broker: a random one with a similar subscriber, at the lowest broker from there that has
    both below, or with any other of the broker."""
    a = int(draw[0] * layout.broker.shape[0])
    if draw[1] < NEAR:
        other = near[layout.subscriber[a], int(draw[2] * near.shape[1])]
        while places[layout.broker[a], other] < 0:
            a = layout.up[a]
        return a, places[layout.broker[a], other]
    broker = layout.broker[a]
    while layout.offsets[broker + 1] - layout.offsets[broker] < 2:
        a = layout.up[a]
        broker = layout.broker[a]
    size = layout.offsets[broker + 1] - layout.offsets[broker]
    return a, layout.offsets[broker] + int(draw[2] * size)


@kernel
def anneal_cascade(
    layout: Layout,
    blocks: Blocks,
    table: Floats,
    filters: Bytes,
    hops: Ints,
    places: Ints,
    near: Ints,
    draws: Floats,
    theta: int,
    temperature: float,
    penalty: float,
    totals: Floats,
    best: Ints,
    margin: float,
) -> int:
    """Try a proposal for each row of `draws`; return after how many of them the gain was below theta.

    `places[v, s]` is the slot of subscriber s at broker v, or below 0; `margin` is what counts as no difference.
    """
    below, count = 0, near.shape[0]
    changed, apart, parts = np.zeros(best.shape[0], np.uint8), np.zeros(count, np.uint8), best.copy()
    for turn in range(draws.shape[0]):
        draw = draws[turn]
        a, b = pair_of_slots(layout, places, near, draw)
        if a != b:
            x, y = blocks.label[a], blocks.label[b]
            if x != y and (draw[3] >= RELOCATE or blocks.inputs[x] < 2):
                change, gain = pair_cascade(layout, blocks, table, x, y)
                if accepted(totals, change, gain, theta, temperature, penalty, draw[4]):
                    join_cascade(layout, blocks, table, x, y, changed)
            elif x != y:
                change, gain, rest = detach_cascade(
                    layout, blocks, table, filters, hops, apart, a, layout.broker.shape[0]
                )
                x, y = blocks.label[a], blocks.label[b]
                more, extra = pair_cascade(layout, blocks, table, x, y)
                if accepted(totals, change + more, gain + extra, theta, temperature, penalty, draw[4]):
                    join_cascade(layout, blocks, table, x, y, changed)
                else:
                    join_cascade(layout, blocks, table, x, blocks.label[rest], changed)
            else:
                while blocks.inputs[blocks.label[a]] < 2:
                    a = layout.down[a]
                links = layout.broker.shape[0] if draw[5] < ALL_LINKS else 1 + int(draw[6] * 3)
                size, change, gain, rest = 0, 0.0, 0, a
                while True:  # one input, or one after another until the block is taken apart
                    parts[size] = rest
                    more, extra, rest = detach_cascade(
                        layout, blocks, table, filters, hops, apart, rest, links
                    )
                    change, gain, size = change + more, gain + extra, size + 1
                    if draw[3] >= DISSOLVE or blocks.inputs[blocks.label[rest]] < 2:
                        break
                if not accepted(totals, change, gain, theta, temperature, penalty, draw[4]):
                    for number in range(size - 1, -1, -1):
                        x, y = blocks.label[parts[number]], blocks.label[rest]
                        join_cascade(layout, blocks, table, x, y, changed)
        if totals[GAIN] < theta:
            below += 1
        elif totals[COST] < totals[BEST] - margin:
            totals[BEST] = totals[COST]
            copy_values(best, 0, blocks.label, len(best))
    return below


@called
def members_below(groups: Groups, ways: Ways, subscriber: int, broker: int, parts: Ints) -> tuple[int, int]:
    """Put those of a subscriber's block who are below a broker into `parts`; return how many, and somebody who is not,
    or -1."""
    size, other, at = 0, -1, subscriber
    while True:
        if ways.way[at, broker // 8] >> (broker % 8) & 1:
            parts[size] = at
            size += 1
        else:
            other = at
        at = groups.ring[at]
        if at == subscriber:
            return size, other


@called
def take_branch(
    groups: Groups, ways: Ways, table: Floats, parts: Ints, size: int, changed: Bytes
) -> tuple[float, int]:
    """Make the first `size` of `parts`, who are in one block with others, a block of their own."""
    change, gain = 0.0, 0
    for number in range(size):
        less, lost, _ = detach_top(groups, ways, table, parts[number])
        change, gain = change + less, gain + lost
        if number > 0:
            more, won = join_top(groups, ways, table, groups.label[parts[0]], parts[number], changed)
            change, gain = change + more, gain + won
    return change, gain


@kernel
def anneal_top(
    groups: Groups,
    ways: Ways,
    table: Floats,
    parents: Ints,
    access: Ints,
    near: Ints,
    draws: Floats,
    theta: int,
    temperature: float,
    penalty: float,
    totals: Floats,
    best: Ints,
    margin: float,
) -> int:
    """The same for the top accounting."""
    below, count = 0, near.shape[0]
    changed, parts = np.zeros(count, np.uint8), best.copy()
    for turn in range(draws.shape[0]):
        draw = draws[turn]
        a = int(draw[0] * count)
        b = near[a, int(draw[2] * near.shape[1])] if draw[1] < NEAR else int(draw[2] * count)
        if a != b:
            x, y = groups.label[a], groups.label[b]
            if x != y and (draw[3] >= RELOCATE or groups.size[x] < 2):
                change, gain = pair_top(groups, ways, table, x, y)
                if accepted(totals, change, gain, theta, temperature, penalty, draw[4]):
                    join_top(groups, ways, table, x, y, changed)
            elif x != y:
                change, gain, rest = detach_top(groups, ways, table, a)
                y = groups.label[b]
                more, extra = pair_top(groups, ways, table, a, y)
                if accepted(totals, change + more, gain + extra, theta, temperature, penalty, draw[4]):
                    join_top(groups, ways, table, a, y, changed)
                else:
                    join_top(groups, ways, table, a, groups.label[rest], changed)
            elif DISSOLVE <= draw[3] < BRANCH:
                broker, steps = access[a], int(draw[5] * 4)
                while steps > 0 and parents[broker] >= 0:
                    broker, steps = parents[broker], steps - 1
                size, other = members_below(groups, ways, a, broker, parts)
                if other >= 0:
                    change, gain = take_branch(groups, ways, table, parts, size, changed)
                    if not accepted(totals, change, gain, theta, temperature, penalty, draw[4]):
                        x, y = groups.label[parts[0]], groups.label[other]
                        join_top(groups, ways, table, x, y, changed)
            else:
                size, change, gain, rest = 0, 0.0, 0, a
                while True:
                    parts[size] = rest
                    more, extra, rest = detach_top(groups, ways, table, rest)
                    change, gain, size = change + more, gain + extra, size + 1
                    if draw[3] >= DISSOLVE or groups.size[groups.label[rest]] < 2:
                        break
                if not accepted(totals, change, gain, theta, temperature, penalty, draw[4]):
                    for number in range(size - 1, -1, -1):
                        x, y = groups.label[parts[number]], groups.label[rest]
                        join_top(groups, ways, table, x, y, changed)
        if totals[GAIN] < theta:
            below += 1
        elif totals[COST] < totals[BEST] - margin:
            totals[BEST] = totals[COST]
            copy_values(best, 0, groups.label, len(best))
    return below
