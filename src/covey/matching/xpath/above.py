"""Parts that say where a parent may be, given the places of a kid and the edge by which it hangs.

The entries of a list are first judged by two words of bits, for the labels right above the places and for all above;
what passes is then looked for. Nine nodes in ten have one place, and a walk up from it finds the parents. For the
others the elements above are chained by label once, so that a parent is found by one look at its symbol's chain.
"""

from __future__ import annotations

import numpy as np

from covey.matching.jit import part
from covey.matching.xpath.memory import (
    ABOVE_LIST,
    ABOVE_MARK,
    ABOVE_NEXT,
    CHAIN_COLUMNS,
    CHAIN_FOR,
    CHAIN_HEAD,
    EDGE_SHIFT,
    ELEMENT_COLUMNS,
    EXACT,
    LABEL,
    LABELS_ABOVE,
    LAST,
    LEVEL,
    PARENT,
    PARENT_MARK,
    REACH,
    SELF,
    SYMBOL_BITS,
    WILDCARD_SYMBOL,
    Memory,
)


@part
def labels_above(m: Memory, first: int, last: int) -> tuple[int, int]:
    """Return the labels of the certain parents of places[first:last], and of all elements above, as bits."""
    parents = above = np.int64(0)
    for p in range(first, last):
        row = ELEMENT_COLUMNS * m.places[p]
        low, high = m.elements[row + LABELS_ABOVE], m.elements[row + LABELS_ABOVE + 1]
        above |= (np.int64(high) << 32) | (np.int64(low) & 0xFFFFFFFF)
        parent = m.elements[row + PARENT]
        if m.elements[row + EXACT] != 0 and parent >= 0:
            label = max(m.elements[ELEMENT_COLUMNS * parent + LABEL], WILDCARD_SYMBOL)
            parents |= (np.int64(1) << (label & 63)) | (1 << WILDCARD_SYMBOL)
    return parents, above  # type: ignore[return-value]


@part
def fits_above(m: Memory, parents: int, above: int, block: int, length: int) -> int:
    """List in `order` the entries of a list that may fit above places with these labels above; return how many.

    There is no branch that could be mispredicted.
    """
    count = 0
    for k in range(length):
        key = m.lists[block + k]
        edge, symbol = key >> EDGE_SHIFT, key & SYMBOL_BITS
        bits = parents if edge == 0 else above
        m.order[count] = k
        count += (((bits >> (symbol & 63)) & 1) != 0) | (edge == SELF)
    return count


@part
def places_above_one(m: Memory, place: int, edge: int, symbol: int, end: int) -> int:
    """Append where a parent may be when its kid, hanging by `edge`, is at `place`; return the new end."""
    row = ELEMENT_COLUMNS * place
    if edge == 0:
        parent = m.elements[row + PARENT]
        m.places[end] = parent
        return end + ((symbol == WILDCARD_SYMBOL) | (symbol == m.elements[ELEMENT_COLUMNS * parent + LABEL]))
    if edge == SELF:
        m.places[end] = place
        return end + ((symbol == WILDCARD_SYMBOL) | (symbol == m.elements[row + LABEL]))
    limit = m.elements[row + LEVEL] - edge
    element = m.elements[row + PARENT]
    while element >= 0:
        row = ELEMENT_COLUMNS * element
        m.places[end] = element
        end += (m.elements[row + LEVEL] <= limit) & (
            (symbol == m.elements[row + LABEL]) | (symbol == WILDCARD_SYMBOL)
        )
        element = m.elements[row + PARENT]
    return end


@part
def chain_above(m: Memory, visit: int, first: int, last: int) -> int:
    """Chain by label all elements above places[first:last]; list them and return how many they are.

    Each is noted with the deepest level of a place below it, and whether it is certainly the parent of a place.
    """
    count = 0
    for p in range(first, last):
        row = ELEMENT_COLUMNS * m.places[p]
        level, above = m.elements[row + LEVEL], m.elements[row + PARENT]
        if above >= 0 and m.elements[row + EXACT] != 0:
            m.elements[ELEMENT_COLUMNS * above + PARENT_MARK] = visit
        while above >= 0:
            row = ELEMENT_COLUMNS * above
            if m.elements[row + ABOVE_MARK] == visit:
                if m.elements[row + REACH] >= level:
                    break
                m.elements[row + REACH] = level
            else:
                m.elements[row + ABOVE_MARK] = visit
                m.elements[row + REACH] = level
                m.elements[ELEMENT_COLUMNS * count + ABOVE_LIST] = above
                count += 1
                _chain_one(m, visit, above)
            above = m.elements[row + PARENT]
    return count


@part
def _chain_one(m: Memory, visit: int, element: int) -> None:
    row = ELEMENT_COLUMNS * element
    if m.elements[row + LABEL] >= 0:
        chain = CHAIN_COLUMNS * m.elements[row + LABEL]
        begun = m.chains[chain + CHAIN_FOR] == visit
        m.elements[row + ABOVE_NEXT] = m.chains[chain + CHAIN_HEAD] if begun else -1
        m.chains[chain + CHAIN_FOR] = visit
        m.chains[chain + CHAIN_HEAD] = element


@part
def places_above_many(
    m: Memory, visit: int, first: int, last: int, edge: int, symbol: int, listed: int, end: int
) -> int:
    """Do what `places_above_one` does for places[first:last], whose elements above are chained and listed."""
    if edge == SELF:
        for p in range(first, last):
            good = (symbol == WILDCARD_SYMBOL) | (symbol == m.elements[ELEMENT_COLUMNS * m.places[p] + LABEL])
            m.places[end] = m.places[p]
            end += good
        return end
    step = 0
    element = np.int64(-1)
    if symbol == WILDCARD_SYMBOL:
        if listed > 0:
            element = np.int64(m.elements[ABOVE_LIST])
    elif m.chains[CHAIN_COLUMNS * symbol + CHAIN_FOR] == visit:
        element = np.int64(m.chains[CHAIN_COLUMNS * symbol + CHAIN_HEAD])
    while element >= 0:
        row = ELEMENT_COLUMNS * element
        m.places[end] = element
        if edge == 0:
            end += m.elements[row + PARENT_MARK] == visit
        else:
            end += m.elements[row + REACH] - m.elements[row + LEVEL] >= edge
        step += 1
        if symbol != WILDCARD_SYMBOL:
            element = np.int64(m.elements[row + ABOVE_NEXT])
        elif step < listed:
            element = np.int64(m.elements[ELEMENT_COLUMNS * step + ABOVE_LIST])
        else:
            element = np.int64(-1)
    return end


@part
def kid_fits(m: Memory, edge: int, place: int, first: int, last: int) -> bool:
    """Return whether a kid at places[first:last], hanging by `edge`, allows its parent at `place`."""
    if edge == 0:
        for p in range(first, last):
            row = ELEMENT_COLUMNS * m.places[p]
            if m.elements[row + PARENT] == place and m.elements[row + EXACT] != 0:
                return True
    elif edge == SELF:
        for p in range(first, last):
            if m.places[p] == place:
                return True
    else:
        level = m.elements[ELEMENT_COLUMNS * place + LEVEL] + edge
        end = m.elements[ELEMENT_COLUMNS * place + LAST]
        for p in range(first, last):
            below = m.places[p]
            if place < below <= end and m.elements[ELEMENT_COLUMNS * below + LEVEL] >= level:
                return True
    return False
