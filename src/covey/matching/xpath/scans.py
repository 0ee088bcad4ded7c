"""Kernels for the questions that look at every filter: which are covered by a pattern, which overlap one.

Covered: the pattern is mapped into the shared graph itself. For a node of the graph, bit p of `fits` says that the part
of the pattern below its node p maps there with p at the node, and `reach` how far below, at least, the deepest such
node lies. Both follow from the node's kids, so each node is judged once whichever patterns share it, and only those
below filters that have all the labels of the pattern (judged by a signature of 63 bits) are looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covey.matching.jit import Ints, Longs, kernel, part
from covey.matching.xpath.memory import EDGE_BITS, SELF, WILDCARD_SYMBOL, Filed, Memory, Node, memory_at

Bytes = NDArray[np.uint8]

# Columns of a pattern's rows, in postorder: which symbol it asks for, or the wildcard's; by which edge it hangs; which
# of the rows are its kids, as bits. A test hangs by SELF.
ASKED, HANGS, BELOW = 0, 1, 2


@part
def _gather(m: Memory, node: int, size: int, met: Longs, fits: Longs, reach: Bytes) -> tuple[int, int]:
    """Set reach[node] from the kids; return which rows are met by tests of the node, and which fit right below it."""
    about = Node(m, node)
    here = right_below = np.int64(0)
    start = about.kids
    for p in range(size):
        reach[node, p] = 0
    for k in range(start, start + about.kid_count):
        kid, edge = m.kids[k] >> 8, m.kids[k] & EDGE_BITS
        if edge == SELF:
            here |= met[Node(m, kid).symbol]
            continue
        if edge == 0:
            right_below |= fits[kid]
        distance = max(edge, 1)
        for p in range(size):
            if reach[kid, p] > 0:
                reach[node, p] = max(reach[node, p], reach[kid, p] + distance)
            elif (fits[kid] >> p) & 1:
                reach[node, p] = max(reach[node, p], distance)
    return here, right_below  # type: ignore[return-value]


@part
def _judge(m: Memory, node: int, pattern: Longs, met: Longs, fits: Longs, reach: Bytes) -> None:
    """Set fits[node] and reach[node] from those of its kids."""
    size = len(pattern)
    here, right_below = _gather(m, node, size, met, fits, reach)
    found = np.int64(0)
    for p in range(size):
        if pattern[p, HANGS] == SELF:
            continue
        asked = pattern[p, ASKED]
        good = asked == WILDCARD_SYMBOL or asked == Node(m, node).symbol
        q = 0
        while good and q < p:
            if (pattern[p, BELOW] >> q) & 1:
                edge = pattern[q, HANGS]
                if edge == SELF:
                    good = ((here >> q) & 1) != 0
                elif edge == 0:
                    good = ((right_below >> q) & 1) != 0
                else:
                    good = reach[node, q] >= edge
            q += 1
        if good:
            found |= np.int64(1) << p
    fits[node] = found


@part
def _judge_all(
    m: Memory, top: int, pattern: Longs, met: Longs, fits: Longs, reach: Bytes, known: Bytes
) -> None:
    """Judge the node and all below it that are not known yet, kids first."""
    m.stack[0] = top
    depth = 1
    while depth:
        node = m.stack[depth - 1]
        about = Node(m, node)
        before = depth
        if known[node] == 0:
            start = about.kids
            for k in range(start, start + about.kid_count):
                if m.kids[k] & EDGE_BITS != SELF and known[m.kids[k] >> 8] == 0:
                    m.stack[depth] = m.kids[k] >> 8
                    depth += 1
        if depth == before:
            if known[node] == 0:
                _judge(m, node, pattern, met, fits, reach)
                known[node] = 1
            depth -= 1


@kernel
def find_covered(
    addresses: Longs,
    handle_count: int,
    pattern: Longs,
    signature: int,
    met: Longs,
    signatures: Longs,
    fits: Longs,
    reach: Bytes,
    known: Bytes,
    found: Ints,
) -> int:
    """Fill `found` with the handles whose pattern the given one covers; return how many.

    met[symbol] says which rows of the pattern, tests all, a test meets. `known`, one a node, is all zero.
    """
    m = memory_at(addresses)
    last = len(pattern) - 1
    wanted = pattern[last, HANGS]
    count = 0
    for handle in range(handle_count):
        top, edge = Filed(m, handle).top, Filed(m, handle).edge
        if top < 0 or signatures[handle] & signature != signature or (wanted == 0 and edge != 0):
            continue
        _judge_all(m, top, pattern, met, fits, reach, known)
        good = ((fits[top] >> last) & 1) != 0
        if wanted > 0:
            distance = max(edge, 1)
            good = (good and distance >= wanted) or (
                reach[top, last] > 0 and distance + reach[top, last] >= wanted
            )
        if good:
            found[count] = handle
            count += 1
    return count


@kernel
def find_overlapping(
    addresses: Longs, handle_count: int, anchored: bool, symbol: int, barred: Bytes, found: Ints
) -> int:
    """Fill `found` with the handles whose root element can be that of the given pattern; return how many.

    `anchored` says whether the pattern asks for the root element, `symbol` for which label, and `barred`, one a
    symbol, which tests of the root element contradict the pattern's.
    """
    m = memory_at(addresses)
    count = 0
    for handle in range(handle_count):
        top = Filed(m, handle).top
        if top < 0:
            continue
        good = True
        if anchored and Filed(m, handle).edge == 0:
            row = Node(m, top)
            label = row.symbol
            good = symbol == WILDCARD_SYMBOL or label == WILDCARD_SYMBOL or label == symbol
            for k in range(row.kids, row.kids + row.kid_count):
                if m.kids[k] & EDGE_BITS == SELF and barred[Node(m, m.kids[k] >> 8).symbol]:
                    good = False
        if good:
            found[count] = handle
            count += 1
    return count
