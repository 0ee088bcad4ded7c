"""Laying out a target for a run: a document or a pattern as rows of what run.py wants to know of an element."""

from __future__ import annotations

import numpy as np

from covey.matching.jit import Ints, part
from covey.matching.xpath.memory import (
    ABOVE_MARK,
    DEEPEST,
    ELEMENT_COLUMNS,
    EXACT,
    LABEL,
    LABELS_ABOVE,
    LABELS_BELOW,
    LABELS_OF_CHILDREN,
    LAST,
    LEVEL,
    P_ELEMENT,
    P_SYMBOL,
    PAIR_COLUMNS,
    PARENT,
    PARENT_MARK,
    WILDCARD_SYMBOL,
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
        for cell in range(at + LABELS_ABOVE, at + LABELS_OF_CHILDREN + 2):
            m.elements[cell] = 0
        if parent >= 0:
            _join(m, at + LABELS_ABOVE, ELEMENT_COLUMNS * parent + LABELS_ABOVE)
            _note(m, at + LABELS_ABOVE, m.elements[ELEMENT_COLUMNS * parent + LABEL])
        if label >= 0:
            m.pairs[PAIR_COLUMNS * pairs + P_SYMBOL] = label
            m.pairs[PAIR_COLUMNS * pairs + P_ELEMENT] = i
            pairs += 1
    for i in range(test_count):
        m.pairs[PAIR_COLUMNS * pairs + P_SYMBOL] = tests[2 * i]
        m.pairs[PAIR_COLUMNS * pairs + P_ELEMENT] = tests[2 * i + 1]
        _note(m, ELEMENT_COLUMNS * tests[2 * i + 1] + LABELS_BELOW, tests[2 * i])
        pairs += 1
    for i in range(size - 1, 0, -1):
        _tell_parent(m, ELEMENT_COLUMNS * i)
    return pairs


@part
def _tell_parent(m: Memory, at: int) -> None:
    """Note with the parent what is now known of an element and of all below it."""
    parent = ELEMENT_COLUMNS * m.elements[at + PARENT]
    m.elements[parent + LAST] = max(m.elements[parent + LAST], m.elements[at + LAST])
    m.elements[parent + DEEPEST] = max(m.elements[parent + DEEPEST], m.elements[at + DEEPEST])
    _join(m, parent + LABELS_BELOW, at + LABELS_BELOW)
    _note(m, parent + LABELS_BELOW, m.elements[at + LABEL])
    if m.elements[at + EXACT] != 0:
        _note(m, parent + LABELS_OF_CHILDREN, m.elements[at + LABEL])


@part
def _join(m: Memory, cells: int, others: int) -> None:
    m.elements[cells] |= m.elements[others]
    m.elements[cells + 1] |= m.elements[others + 1]


@part
def _note(m: Memory, cells: int, symbol: int) -> None:
    """Set the bits of a symbol, which is -1 for an unknown label, and of the wildcard."""
    bit = max(symbol, WILDCARD_SYMBOL) & 63
    m.elements[cells + (bit >> 5)] |= np.int64(1) << (bit & 31)
    m.elements[cells] |= 1 << WILDCARD_SYMBOL
