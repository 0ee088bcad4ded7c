"""Laying out a target for a run: a document or a pattern as rows of what run.py wants to know of an element."""

from __future__ import annotations

import numpy as np

from covey.matching.jit import Ints, part
from covey.matching.xpath.memory import (
    ABOVE_MARK,
    BLOOM_HIGH,
    BLOOM_LOW,
    DEEPEST,
    ELEMENT_COLUMNS,
    EXACT,
    LABEL,
    LAST,
    LEVEL,
    P_ELEMENT,
    P_SYMBOL,
    PAIR_COLUMNS,
    PARENT,
    PARENT_MARK,
    Memory,
)


@part
def lay_target(m: Memory, rows: Ints, size: int, tests: Ints, test_count: int) -> int:
    """Fill `elements` and `pairs` with the target (run.py says what it is made of); return the number of pairs."""
    pairs = 0
    for i in range(size):
        parent, label, at = rows[4 * i], rows[4 * i + 3], ELEMENT_COLUMNS * i
        m.elements[at + PARENT] = parent
        m.elements[at + EXACT] = rows[4 * i + 1]
        m.elements[at + LEVEL] = rows[4 * i + 2]
        m.elements[at + LABEL] = label
        m.elements[at + LAST] = i
        m.elements[at + DEEPEST] = rows[4 * i + 2]
        m.elements[at + ABOVE_MARK] = -1
        m.elements[at + PARENT_MARK] = -1
        _note_labels_above(m, at, parent)
        if label >= 0:
            m.pairs[PAIR_COLUMNS * pairs + P_SYMBOL] = label
            m.pairs[PAIR_COLUMNS * pairs + P_ELEMENT] = i
            pairs += 1
    for i in range(size - 1, 0, -1):
        at = ELEMENT_COLUMNS * i
        parent = ELEMENT_COLUMNS * m.elements[at + PARENT]
        m.elements[parent + LAST] = max(m.elements[parent + LAST], m.elements[at + LAST])
        m.elements[parent + DEEPEST] = max(m.elements[parent + DEEPEST], m.elements[at + DEEPEST])
    for i in range(test_count):
        m.pairs[PAIR_COLUMNS * pairs + P_SYMBOL] = tests[2 * i]
        m.pairs[PAIR_COLUMNS * pairs + P_ELEMENT] = tests[2 * i + 1]
        pairs += 1
    return pairs


@part
def _note_labels_above(m: Memory, at: int, parent: int) -> None:
    """Set the bits of the labels above: those above the parent and the parent's own, each at symbol % 64."""
    low = high = np.int64(0)
    if parent >= 0:
        above = ELEMENT_COLUMNS * parent
        # The wildcard's bit, 0, is set wherever there is anything above.
        bit = max(m.elements[above + LABEL], 0) & 63
        low = np.int64(m.elements[above + BLOOM_LOW]) | 1
        high = np.int64(m.elements[above + BLOOM_HIGH])
        if bit < 32:
            low |= np.int64(1) << bit
        else:
            high |= np.int64(1) << (bit - 32)
    m.elements[at + BLOOM_LOW] = low
    m.elements[at + BLOOM_HIGH] = high
