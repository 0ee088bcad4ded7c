"""Laying out a target for a run: a document or a pattern as rows of what run.py wants to know of an element."""

from __future__ import annotations

import numpy as np
from numba import njit

from covey.matching.xpath.layout import (
    ABOVE_LIST,
    ABOVE_MARK,
    ABOVE_NEXT,
    BLOOM_HIGH,
    BLOOM_LOW,
    DEEPEST,
    EXACT,
    LABEL,
    LAST,
    LEVEL,
    PARENT,
    PARENT_MARK,
    REACH,
    Ints,
    Longs,
)
from covey.matching.xpath.run import run


@njit(cache=True, _nrt=False)
def lay_target(rows: Ints, elements: Ints, pairs: Ints) -> int:
    """Fill `elements` and `pairs` from rows (parent, exact, level, symbol) in document order; return the pairs made."""
    count = 0
    for i in range(len(rows)):
        parent, label = rows[i, 0], rows[i, 3]
        elements[i, PARENT] = parent
        elements[i, EXACT] = rows[i, 1]
        elements[i, LEVEL] = rows[i, 2]
        elements[i, LABEL] = label
        elements[i, LAST] = i
        elements[i, DEEPEST] = rows[i, 2]
        elements[i, ABOVE_MARK] = -1
        elements[i, ABOVE_NEXT] = -1
        elements[i, ABOVE_LIST] = -1
        elements[i, PARENT_MARK] = -1
        elements[i, REACH] = -1
        low = high = np.int64(0)
        if parent >= 0:
            # The wildcard's bit, 0, is set wherever there is anything above.
            bit = max(elements[parent, LABEL], 0) & 63
            low = elements[parent, BLOOM_LOW] | 1 | (np.int64(1) << bit if bit < 32 else 0)
            high = elements[parent, BLOOM_HIGH] | (np.int64(1) << (bit - 32) if bit >= 32 else 0)
        elements[i, BLOOM_LOW] = low
        elements[i, BLOOM_HIGH] = high
        if label >= 0:
            pairs[count, 0] = label
            pairs[count, 1] = i
            count += 1
    for i in range(len(rows) - 1, 0, -1):
        parent = elements[i, PARENT]
        elements[parent, LAST] = max(elements[parent, LAST], elements[i, LAST])
        elements[parent, DEEPEST] = max(elements[parent, DEEPEST], elements[i, DEEPEST])
    return count


@njit(cache=True, _nrt=False)
def run_target(
    rows: Ints,
    tests: Ints,
    elements: Ints,
    pairs: Ints,
    nodes: Ints,
    lists: Ints,
    kids: Longs,
    symbols: Ints,
    handles: Ints,
    slot: Ints,
    seen: Ints,
    work: Ints,
    later: Ints,
    heads: Ints,
    places: Ints,
    chains: Ints,
    order: Ints,
    found: Ints,
    counts: Longs,
) -> int:
    """Lay the target out, with `tests` (symbol, element) that hold, and run all patterns over it; see `run`."""
    count = lay_target(rows, elements, pairs)
    for i in range(len(tests)):
        pairs[count, 0] = tests[i, 0]
        pairs[count, 1] = tests[i, 1]
        count += 1
    return run(
        len(rows),
        count,
        elements,
        pairs,
        nodes,
        lists,
        kids,
        symbols,
        handles,
        slot,
        seen,
        work,
        later,
        heads,
        places,
        chains,
        order,
        found,
        counts,
    )
