"""Kernels for the questions that look at every filter: which are covered by a pattern, which overlap one.

Covered: the pattern is mapped into the shared graph itself. For a node of the graph, bit p of `fits` says that the part of
the pattern below its node p maps there with p at the node, and `reach` how far below, at least, the deepest such node
lies. Both follow from the node's kids, so each node is judged once whichever patterns share it, and only those below
filters that have all the labels of the pattern (judged by a signature of 64 bits) are looked at.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covey.matching.xpath.layout import (
    EDGE,
    EDGE_BITS,
    KID_COUNT,
    KIDS,
    SELF,
    SYMBOL,
    TOP,
    WILDCARD_SYMBOL,
    Bytes,
    Ints,
    Longs,
)

# Columns of a pattern's rows, in postorder: which symbol it asks for, or the wildcard's; by which edge it hangs; which of
# the rows are its kids, as bits. A test hangs by SELF.
P_SYMBOL, P_EDGE, P_KIDS = 0, 1, 2


@njit(cache=True)
def _judge(
    node: int,
    pattern: Longs,
    asked: Longs,
    nodes: Ints,
    kids: Longs,
    fits: Longs,
    reach: Bytes,
) -> None:
    """Set fits[node] and reach[node] from those of its kids; asked[symbol] says which leaves of the pattern it meets."""
    here = right_below = np.int64(0)
    start = nodes[node, KIDS]
    for p in range(len(pattern)):
        reach[node, p] = 0
    for k in range(start, start + nodes[node, KID_COUNT]):
        kid, edge = kids[k] >> 8, kids[k] & EDGE_BITS
        if edge == SELF:
            here |= asked[nodes[kid, SYMBOL]]
            continue
        if edge == 0:
            right_below |= fits[kid]
        distance = max(edge, 1)
        for p in range(len(pattern)):
            if reach[kid, p] > 0:
                reach[node, p] = max(reach[node, p], reach[kid, p] + distance)
            elif (fits[kid] >> p) & 1:
                reach[node, p] = max(reach[node, p], distance)
    found = np.int64(0)
    for p in range(len(pattern)):
        if pattern[p, P_EDGE] == SELF:
            continue
        good = pattern[p, P_SYMBOL] == WILDCARD_SYMBOL or pattern[p, P_SYMBOL] == nodes[node, SYMBOL]
        q = 0
        while good and q < p:
            if (pattern[p, P_KIDS] >> q) & 1:
                edge = pattern[q, P_EDGE]
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


@njit(cache=True)
def find_covered(
    pattern: Longs,
    signature: int,
    asked: Longs,
    nodes: Ints,
    kids: Longs,
    handles: Ints,
    signatures: Longs,
    fits: Longs,
    reach: Bytes,
    known: Bytes,
    stack: Longs,
    found: Ints,
) -> int:
    """Fill `found` with the handles whose pattern the given one covers; return how many.

    `known`, one a node, is all zero; `stack` has room for twice the longest way down times the most kids.
    """
    top_row = len(pattern) - 1
    wanted = pattern[top_row, P_EDGE]
    count = 0
    for handle in range(len(handles)):
        if handles[handle, TOP] < 0 or signatures[handle] & signature != signature:
            continue
        edge = handles[handle, EDGE]
        if wanted == 0 and edge != 0:
            continue
        top = handles[handle, TOP]
        stack[0] = top
        depth = 1
        while depth:
            node = stack[depth - 1]
            before = depth
            if known[node] == 0:
                for k in range(nodes[node, KIDS], nodes[node, KIDS] + nodes[node, KID_COUNT]):
                    if kids[k] & EDGE_BITS != SELF and known[kids[k] >> 8] == 0:
                        stack[depth] = kids[k] >> 8
                        depth += 1
            if depth == before:
                if known[node] == 0:
                    _judge(node, pattern, asked, nodes, kids, fits, reach)
                    known[node] = 1
                depth -= 1
        fit = ((fits[top] >> top_row) & 1) != 0
        distance = max(edge, 1)
        if wanted == 0:
            good = fit
        else:
            good = (fit and distance >= wanted) or (reach[top, top_row] > 0 and distance + reach[top, top_row] >= wanted)
        if good:
            found[count] = handle
            count += 1
    return count


@njit(cache=True)
def find_overlapping(
    anchored: bool, symbol: int, barred: Bytes, nodes: Ints, kids: Longs, handles: Ints, found: Ints
) -> int:
    """Fill `found` with the handles whose root element can be that of the given pattern; return how many.

    `anchored` says whether the pattern asks for the root element, `symbol` for which label, and `barred`, one a
    symbol, which tests of the root element contradict the pattern's.
    """
    count = 0
    for handle in range(len(handles)):
        top = handles[handle, TOP]
        if top < 0:
            continue
        good = True
        if anchored and handles[handle, EDGE] == 0:
            label = nodes[top, SYMBOL]
            good = symbol == WILDCARD_SYMBOL or label == WILDCARD_SYMBOL or label == symbol
            for k in range(nodes[top, KIDS], nodes[top, KIDS] + nodes[top, KID_COUNT]):
                if kids[k] & EDGE_BITS == SELF and barred[nodes[kids[k] >> 8, SYMBOL]]:
                    good = False
        if good:
            found[count] = handle
            count += 1
    return count
