"""Parts that say where a parent may be, given the places of a kid and the edge by which it hangs.

The entries of a list are first judged by two words of bits, for the labels right above the places and for all above;
what passes is then looked for. Nine nodes in ten have one place, and a walk up from it finds the parents. For the
others the elements above are chained by label once, so that a parent is found by one look at its symbol's chain.
"""

from __future__ import annotations

import numpy as np

from covey.matching.jit import part
from covey.matching.xpath.memory import EDGE_SHIFT, SELF, SYMBOL_BITS, WILDCARD_SYMBOL, Chain, Element, Memory


@part
def labels_above(m: Memory, first: int, last: int) -> tuple[int, int]:
    """Return the labels of the certain parents of places[first:last], and of all elements above, as bits."""
    parents = above = np.int64(0)
    for p in range(first, last):
        row = Element(m, m.places[p])
        above |= row.labels_above
        parent = row.parent
        if row.exact != 0 and parent >= 0:
            label = max(Element(m, parent).label, WILDCARD_SYMBOL)
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
    row = Element(m, place)
    if edge == 0:
        parent = row.parent
        m.places[end] = parent
        return end + ((symbol == WILDCARD_SYMBOL) | (symbol == Element(m, parent).label))
    if edge == SELF:
        m.places[end] = place
        return end + ((symbol == WILDCARD_SYMBOL) | (symbol == row.label))
    limit = row.level - edge
    element = row.parent
    while element >= 0:
        row = Element(m, element)
        m.places[end] = element
        end += (row.level <= limit) & ((symbol == row.label) | (symbol == WILDCARD_SYMBOL))
        element = row.parent
    return end


@part
def chain_above(m: Memory, visit: int, first: int, last: int) -> int:
    """Chain by label all elements above places[first:last]; list them and return how many they are.

    Each is noted with the deepest level of a place below it, and whether it is certainly the parent of a place.
    """
    count = 0
    for p in range(first, last):
        row = Element(m, m.places[p])
        level, above = row.level, row.parent
        if above >= 0 and row.exact != 0:
            Element(m, above).parent_mark = visit
        while above >= 0:
            row = Element(m, above)
            if row.above_mark == visit:
                if row.reach >= level:
                    break
                row.reach = level
            else:
                row.above_mark = visit
                row.reach = level
                Element(m, count).above_list = above
                count += 1
                _chain_one(m, visit, above)
            above = row.parent
    return count


@part
def _chain_one(m: Memory, visit: int, element: int) -> None:
    row = Element(m, element)
    if row.label >= 0:
        chain = Chain(m, row.label)
        begun = chain.visit == visit
        row.above_next = chain.head if begun else -1
        chain.visit = visit
        chain.head = element


@part
def places_above_many(
    m: Memory, visit: int, first: int, last: int, edge: int, symbol: int, listed: int, end: int
) -> int:
    """Do what `places_above_one` does for places[first:last], whose elements above are chained and listed."""
    if edge == SELF:
        for p in range(first, last):
            good = (symbol == WILDCARD_SYMBOL) | (symbol == Element(m, m.places[p]).label)
            m.places[end] = m.places[p]
            end += good
        return end
    step = 0
    element = -1
    if symbol == WILDCARD_SYMBOL:
        if listed > 0:
            element = Element(m, 0).above_list
    elif Chain(m, symbol).visit == visit:
        element = Chain(m, symbol).head
    while element >= 0:
        row = Element(m, element)
        m.places[end] = element
        if edge == 0:
            end += row.parent_mark == visit
        else:
            end += row.reach - row.level >= edge
        step += 1
        if symbol != WILDCARD_SYMBOL:
            element = row.above_next
        elif step < listed:
            element = Element(m, step).above_list
        else:
            element = -1
    return end


@part
def kid_fits(m: Memory, edge: int, place: int, first: int, last: int) -> bool:
    """Return whether a kid at places[first:last], hanging by `edge`, allows its parent at `place`."""
    above = Element(m, place)
    if edge == 0:
        for p in range(first, last):
            row = Element(m, m.places[p])
            if row.parent == place and row.exact != 0:
                return True
    elif edge == SELF:
        for p in range(first, last):
            if m.places[p] == place:
                return True
    else:
        level = above.level + edge
        end = above.last
        for p in range(first, last):
            below = m.places[p]
            if place < below <= end and Element(m, below).level >= level:
                return True
    return False
