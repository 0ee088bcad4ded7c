"""Laying out a target for a run: a document or a pattern as rows of what run.py wants to know of an element."""

from __future__ import annotations

import numpy as np

from covey.matching.jit import Ints, part
from covey.matching.xpath.memory import WILDCARD_SYMBOL, Element, Memory, Pair, TargetRow, TargetTest


@part
def lay_target(m: Memory, rows: Ints, size: int, tests: Ints, test_count: int) -> int:
    """Fill `elements` and `pairs` with the target (run.py says what it is made of); return the number of pairs."""
    pairs = 0
    for i in range(size):
        row, element = TargetRow(rows, i), Element(m, i)
        parent, label = row.parent, row.label
        element.parent = parent
        element.exact = row.exact
        element.level = row.level
        element.label = label
        element.last = i
        element.deepest = row.level
        element.above_mark = -1
        element.parent_mark = -1
        element.labels_above = element.labels_below = element.labels_of_children = 0
        if parent >= 0:
            above = Element(m, parent)
            element.labels_above = above.labels_above | _bits(above.label)
        if label >= 0:
            Pair(m, pairs).symbol = label
            Pair(m, pairs).element = i
            pairs += 1
    for i in range(test_count):
        test = TargetTest(tests, i)
        Pair(m, pairs).symbol = test.symbol
        Pair(m, pairs).element = test.element
        Element(m, test.element).labels_below |= _bits(test.symbol)
        pairs += 1
    for i in range(size - 1, 0, -1):
        _tell_parent(m, i)
    return pairs


@part
def _tell_parent(m: Memory, i: int) -> None:
    """Note with the parent what is now known of an element and of all below it."""
    element = Element(m, i)
    parent, labels = Element(m, element.parent), _bits(element.label)
    parent.last = max(parent.last, element.last)
    parent.deepest = max(parent.deepest, element.deepest)
    parent.labels_below |= element.labels_below | labels
    if element.exact != 0:
        parent.labels_of_children |= labels


@part
def _bits(symbol: int) -> int:
    """Return the bits of a symbol, which is -1 for an unknown label, and of the wildcard."""
    return (np.int64(1) << (max(symbol, WILDCARD_SYMBOL) & 63)) | (1 << WILDCARD_SYMBOL)  # type: ignore[return-value]
