"""Questions about one filter, from its wire form to the answer in one compiled call.

A broker asks for every subscription whether a filter that it knows covers it, which filters it covers, and whether an
advertisement overlaps it. The filter came as bytes (`core/attributes/wire.py`), and almost every filter is a
conjunction of numbers, texts, truth values and ranges: these are read here as events are, without a Python object. A
filter with other constraints, or with an attribute that has channels for such constraints, is LEFT to Python, which
writes the acceptors itself (`Store.set_acceptors`) and asks with the same kernel.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from covey.matching.attributes.heap import (
    ACCEPTOR_ROOM,
    EXTRA_ROWS,
    HANDLES,
    POSTED_EXTRA,
    QUESTION_ROOM,
    VERIFIED,
)
from covey.matching.attributes.layout import AttributeRow
from covey.matching.attributes.memory import Memory, memory_at, workspace_at
from covey.matching.attributes.packed import (
    FLOAT,
    NOTHING,
    TEXT,
    TRUTH,
    Bytes,
    hash_of,
    list_at,
    text_at,
    value_at,
)
from covey.matching.attributes.postings import EVERY, Question, meets_any, rows_inside, rows_meeting
from covey.matching.attributes.query import satisfied
from covey.matching.attributes.store import ENOUGH_VERIFIED
from covey.matching.attributes.unpacking import Vocabulary, owner_of, symbol_of, vocabulary_at
from covey.matching.attributes.view import RESTLESS, view_at
from covey.matching.jit import (
    bits_float,
    bytes_at,
    called,
    float_bits,
    kernel,
    part,
)

# Questions: which rows cover the filter (at most `limit`), lie inside it, overlap it; and whether there is one.
COVERING, INSIDE, MEETING, MEETS = 0, 1, 2, 3
LEFT: Final = -1  # instead of an answer: Python has to read the filter
NOT_READY: Final = (
    -2
)  # instead of an answer: there are no postings yet, or too little room (`Store.make_question`)

_PER_SIDE: Final = 3  # acceptors that a constraint has at most
_RANGE: Final = 3  # values in the wire form of a range


@part
def _after(number: float) -> float:
    """Return the float64 next above a finite one."""
    if number == 0.0:
        return 5e-324
    bits = float_bits(number)
    return bits_float(bits + 1 if number > 0.0 else bits - 1)


@part
def _range_at(data: Bytes, at: int, end: int) -> tuple[bool, float, float, int]:
    """Return whether a range's low end, high end and sides begin at `at`; both ends as closed ones, and where the sides
    end."""
    kind, low, at = value_at(data, at, end)
    if (kind != FLOAT and kind != NOTHING) or at >= end:
        return False, 0.0, 0.0, at
    other, high, at = value_at(data, at, end)
    if (other != FLOAT and other != NOTHING) or at >= end:
        return False, 0.0, 0.0, at
    _, number, at = value_at(data, at, end)
    sides = np.int64(number)
    if kind == NOTHING:
        low = -np.inf
    elif sides & 1:
        low = _after(low)
    if other == NOTHING:
        high = np.inf
    elif not sides & 2:
        high = -_after(-high)
    return low <= high, low, high, at


@part
def _put(q: Question, found: int, channel: int, low: float, high: float) -> int:
    if channel != 0:
        q.a.names[found] = channel
        q.a.lows[found] = low
        q.a.highs[found] = high
        found += 1
    return found


@part
def _side_at(
    v: Vocabulary, data: Bytes, at: int, end: int, owner: int, question: int, q: Question, found: int
) -> tuple[int, int]:
    """Write the acceptors of the constraint at `at` on an attribute, -1 if it is unknown; return how many acceptors
    there are then, LEFT for a constraint that Python has to read, and where the constraint ends."""
    number, symbol = 0, 0
    if owner >= 0:
        row = AttributeRow(v.attributes, owner)
        number, symbol = row.number, row.symbol
        if row.special != 0:
            return LEFT, at
    kind, value, after = value_at(data, at, end)
    if kind == FLOAT:
        found = _put(q, found, number, value, value)
    elif kind == TRUTH:
        found = _put(q, found, symbol, value, value)
    elif kind == TEXT:
        first, after = text_at(data, at, end)
        if first < 0:
            return LEFT, at
        if symbol != 0:
            text = symbol_of(v, owner, kind, data, first, after)
            if text >= 0:
                found = _put(q, found, symbol, float(text), float(text))
    elif (
        kind != NOTHING or question != COVERING
    ):  # what is present is covered by nothing but special constraints
        count, after = list_at(data, at, end)
        if count != _RANGE or after >= end:
            return LEFT, at
        is_range, low, high, after = _range_at(data, after, end)
        if not is_range:
            return LEFT, at
        # Symbols may be numbers from 2**53 on, which lie inside a range without an end.
        if question != COVERING and symbol != 0 and (low == -np.inf or high == np.inf):
            return LEFT, at
        found = _put(q, found, number, low, high)
    if question >= MEETING:  # that the attribute is constrained
        found = _put(q, found, number, np.nan, np.nan)
        found = _put(q, found, symbol, np.nan, np.nan)
    return found, after


@called
def _read_form(v: Vocabulary, m: Memory, q: Question, data: Bytes, end: int, question: int) -> int:
    """Write the acceptors of a filter; return the number of groups, or LEFT."""
    conjunctions, at = list_at(data, 0, end)
    if conjunctions != 1 or at >= end:
        return LEFT
    parts, at = list_at(data, at, end)
    groups = parts >> 1
    absent = v.absence_count if question == COVERING else 0
    if parts < 0 or _PER_SIDE * (groups + 1) + absent > m.meta[ACCEPTOR_ROOM]:
        return LEFT
    found = 0
    for group in range(groups):
        q.starts[group] = found
        if at >= end:
            return LEFT
        first, last = text_at(data, at, end)
        if first < 0 or last >= end:
            return LEFT
        owner = owner_of(v, data, first, last, hash_of(data, first, last, 0))
        found, at = _side_at(v, data, last, end, owner, question, q, found)
        if found < 0:
            return LEFT
    # Without this, what is not constrained would count as absent.
    for k in range(absent):
        found = _put(q, found, v.absences[k], np.nan, np.nan)
    q.starts[groups] = found
    return groups


@kernel
def ask(at: int, data: int, size: int, question: int, limit: int) -> int:
    """Answer a question about a filter to the index whose view is at an address.

    `data` is the address of `size` bytes: the filter's wire form behind its first byte. If it is 0, the acceptors of
    `size` groups have been written already. The answer is how many rows there are, LEFT or NOT_READY; to that of
    COVERING, RESTLESS may be added. Handles of rows that cover it stand in the store's `out`, ids of others in its
    `candidates`.
    """
    view = view_at(at)
    m, room = memory_at(view.store), workspace_at(view.store)
    q = Question(room.acceptors, room.groups, room.intervals, room.sizes, room.marks)
    if question != COVERING and (
        m.meta[POSTED_EXTRA] != EVERY or m.meta[QUESTION_ROOM] < m.meta[HANDLES] + m.meta[EXTRA_ROWS]
    ):
        return NOT_READY
    groups = (
        size
        if data == 0
        else _read_form(vocabulary_at(view.vocabulary), m, q, bytes_at(data), size, question)
    )
    if groups < 0:
        return LEFT
    if question == COVERING:
        found = satisfied(m, q.a, 0, q.starts[groups], room.acceptor_cells, room.out, 0, limit)
        return found + RESTLESS if m.meta[VERIFIED] >= ENOUGH_VERIFIED else found
    rows = room.candidates
    if question == INSIDE:
        return rows_inside(m, q, groups, rows) if groups > 0 else LEFT
    if question == MEETING:
        return rows_meeting(m, q, groups, rows, 1 << 62)
    return 1 if meets_any(m, q, groups, rows) else 0
