"""The kernel that runs all patterns at once over one target, bottom up.

For every node of the shared graph that fits somewhere in the target, the kernel lists where: its places. It starts with
the leaves whose symbol occurs in the target and goes on only to the lists of nodes that fit.

A node with one kid fits where its kid's places allow, so it can be taken up at any time; last in, first out visits the
lists in the order in which they lie in memory. A node with several kids waits for its access kid, which is of the highest
rank among them, and is then put off until nothing else is left to do and it is of the lowest rank put off: by then all
of lower rank, its other kids among them, are settled. A node at which others look is found by `slot`, which needs no
clearing between runs: it counts only if `seen` holds the node in that place.

From the places of a node follows where its parents may be: at the elements right above, or anywhere above. Nine nodes in
ten have one place, and then the entries of a list are judged by one label and one word of bits for the labels above. For
the others the elements above are chained by label once, so that an entry is refused by one look at its symbol's chain.

The target is a document, for matching, or a pattern, for finding those that cover it; containment.py has the rules.
Kernels are compiled without Numba's reference counting, which would cost more than all else here; they create no arrays.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covey.matching.xpath.layout import (
    ABOVE_LIST,
    ABOVE_MARK,
    ABOVE_NEXT,
    ACCEPT,
    ACCESS,
    BLOOM_HIGH,
    BLOOM_LOW,
    DEEPEST,
    EDGE,
    EDGE_BITS,
    EDGE_SHIFT,
    ENTRY_COLUMNS,
    EXACT,
    FLAGS,
    FURTHER,
    KID_COUNT,
    KIDS,
    L_BEGIN,
    L_END,
    L_HOME,
    L_NEXT,
    LABEL,
    LAST,
    LATER,
    LEAF,
    LENGTH,
    LEVEL,
    LIST,
    MANY,
    MORE,
    NEXT,
    NODE,
    OTHER,
    OTHER_EDGE,
    PARENT,
    PARENT_MARK,
    RANK_SHIFT,
    REACH,
    S_BEGIN,
    S_END,
    S_NODE,
    SEEN,
    SELF,
    SIZE,
    SYMBOL_BITS,
    W_BEGIN,
    W_END,
    W_LENGTH,
    W_LIST,
    W_SIZE,
    WATCHED,
    WILDCARD_SYMBOL,
    WORK,
    Ints,
    Longs,
)
from covey.matching.xpath.prefetch import prefetch

# Columns of `chains`, one row a symbol: for which place in the queue the chain is, and with which element it begins.
CHAIN_FOR, CHAIN_HEAD = 0, 1

# What no label is: there is no element to look at.
NOTHING = -2


@njit(cache=True, inline="always", _nrt=False)
def _parent_label(place: int, elements: Ints) -> int:
    """Return the label of the element certainly right above `place`, or NOTHING."""
    if elements[place, EXACT] == 0 or elements[place, PARENT] < 0:
        return NOTHING
    return elements[elements[place, PARENT], LABEL]


@njit(cache=True, inline="always", _nrt=False)
def _labels_above(place: int, elements: Ints) -> int:
    """Return the word in which the bit symbol % 64 is set for every label above `place`."""
    return (np.int64(elements[place, BLOOM_HIGH]) << 32) | (np.int64(elements[place, BLOOM_LOW]) & 0xFFFFFFFF)


@njit(cache=True, inline="always", _nrt=False)
def _hits(block: int, length: int, parent_label: int, above: int, lists: Ints, order: Ints) -> int:
    """List the entries that may fit above a single place; return how many. There is no branch to mispredict."""
    has_parent = parent_label != NOTHING
    count = 0
    for k in range(length):
        key = lists[block + k]
        edge = key >> EDGE_SHIFT
        symbol = key & SYMBOL_BITS
        right_above = (edge == 0) & ((symbol == parent_label) | ((symbol == WILDCARD_SYMBOL) & has_parent))
        further_above = (edge != 0) & (((above >> (symbol & 63)) & 1) != 0)
        order[count] = k
        count += right_above | further_above | (edge == SELF)
    return count


@njit(cache=True, inline="always", _nrt=False)
def _above_one(place: int, edge: int, symbol: int, elements: Ints, places: Ints, end: int) -> int:
    """Append where a parent may be when its kid, hanging by `edge`, is at `place`; return the new end."""
    if edge == 0:
        places[end] = elements[place, PARENT]
        return end + 1
    if edge == SELF:
        places[end] = place
        return end + (symbol == WILDCARD_SYMBOL or symbol == elements[place, LABEL])
    limit = elements[place, LEVEL] - edge
    element = elements[place, PARENT]
    while element >= 0:
        places[end] = element
        end += (elements[element, LEVEL] <= limit) & (
            (symbol == elements[element, LABEL]) | (symbol == WILDCARD_SYMBOL)
        )
        element = elements[element, PARENT]
    return end


@njit(cache=True, inline="always", _nrt=False)
def _chain_above(visit: int, first: int, last: int, places: Ints, elements: Ints, chains: Ints) -> int:
    """Chain by label all elements above places[first:last]; list them and return how many they are.

    Each is noted with the deepest level of a place below it, and whether it is certainly the parent of a place.
    """
    count = 0
    for p in range(first, last):
        place = places[p]
        level = elements[place, LEVEL]
        above = elements[place, PARENT]
        if above >= 0 and elements[place, EXACT] != 0:
            elements[above, PARENT_MARK] = visit
        while above >= 0:
            if elements[above, ABOVE_MARK] == visit:
                if elements[above, REACH] >= level:
                    break
                elements[above, REACH] = level
            else:
                elements[above, ABOVE_MARK] = visit
                elements[above, REACH] = level
                elements[count, ABOVE_LIST] = above
                count += 1
                label = elements[above, LABEL]
                if label >= 0:
                    elements[above, ABOVE_NEXT] = chains[label, CHAIN_HEAD] if chains[label, CHAIN_FOR] == visit else -1
                    chains[label, CHAIN_FOR] = visit
                    chains[label, CHAIN_HEAD] = above
            above = elements[above, PARENT]
    return count


@njit(cache=True, inline="always", _nrt=False)
def _above_many(
    visit: int,
    first: int,
    last: int,
    edge: int,
    symbol: int,
    listed: int,
    chains: Ints,
    elements: Ints,
    places: Ints,
    end: int,
) -> int:
    """Do what `_above_one` does for places[first:last], whose elements above are chained and listed."""
    if edge == SELF:
        for p in range(first, last):
            if symbol == WILDCARD_SYMBOL or symbol == elements[places[p], LABEL]:
                places[end] = places[p]
                end += 1
        return end
    step = 0
    if symbol == WILDCARD_SYMBOL:
        element = elements[0, ABOVE_LIST] if listed else -1
    else:
        element = chains[symbol, CHAIN_HEAD] if chains[symbol, CHAIN_FOR] == visit else -1
    while element >= 0:
        if edge == 0:
            good = elements[element, PARENT_MARK] == visit
        else:
            good = elements[element, REACH] - elements[element, LEVEL] >= edge
        places[end] = element
        end += good
        if symbol != WILDCARD_SYMBOL:
            element = elements[element, ABOVE_NEXT]
        else:
            step += 1
            element = elements[step, ABOVE_LIST] if step < listed else -1
    return end


@njit(cache=True, inline="always", _nrt=False)
def _kid_fits(edge: int, place: int, first: int, last: int, places: Ints, elements: Ints) -> bool:
    """Return whether a kid at places[first:last], hanging by `edge`, allows its parent at `place`."""
    if edge == 0:
        for p in range(first, last):
            if elements[places[p], PARENT] == place and elements[places[p], EXACT] != 0:
                return True
    elif edge == SELF:
        for p in range(first, last):
            if places[p] == place:
                return True
    else:
        level = elements[place, LEVEL] + edge
        end = elements[place, LAST]
        for p in range(first, last):
            if place < places[p] <= end and elements[places[p], LEVEL] >= level:
                return True
    return False


@njit(cache=True, inline="always", _nrt=False)
def _keep_where_fits(
    kid: int,
    edge: int,
    first: int,
    last: int,
    seen_count: int,
    wildcard_leaf: int,
    slot: Ints,
    seen: Ints,
    places: Ints,
    elements: Ints,
) -> int:
    """Keep of places[first:last], where a parent may be, those that a kid of it allows; return the new end."""
    kept = first
    if kid == wildcard_leaf:
        for p in range(first, last):
            if elements[places[p], DEEPEST] - elements[places[p], LEVEL] >= edge:
                places[kept] = places[p]
                kept += 1
        return kept
    at = slot[kid]
    if at < seen_count and seen[at, S_NODE] == kid:
        for p in range(first, last):
            if _kid_fits(edge, places[p], seen[at, S_BEGIN], seen[at, S_END], places, elements):
                places[kept] = places[p]
                kept += 1
    return kept


@njit(cache=True, inline="always", _nrt=False)
def _keep_where_all_fit(
    home: int,
    first: int,
    last: int,
    seen_count: int,
    wildcard_leaf: int,
    nodes: Ints,
    lists: Ints,
    kids: Longs,
    slot: Ints,
    seen: Ints,
    places: Ints,
    elements: Ints,
) -> int:
    """Keep of places[first:last] those that all kids but the access kid allow; return the new end."""
    kid, edge = lists[home + OTHER], lists[home + OTHER_EDGE] & EDGE_BITS
    last = _keep_where_fits(kid, edge, first, last, seen_count, wildcard_leaf, slot, seen, places, elements)
    if last > first and lists[home + FLAGS] & MANY:
        node = lists[home + NODE]
        start = nodes[node, KIDS]
        for k in range(start, start + nodes[node, KID_COUNT]):
            if k - start != nodes[node, ACCESS]:
                kid, edge = kids[k] >> 8, kids[k] & EDGE_BITS
                last = _keep_where_fits(kid, edge, first, last, seen_count, wildcard_leaf, slot, seen, places, elements)
    return last


@njit(cache=True, inline="always", _nrt=False)
def _accept(
    home: int, first: int, last: int, total: int, lists: Ints, handles: Ints, places: Ints, elements: Ints, found: Ints
) -> int:
    """Append the handles whose filter's top is the node of the entry at `home`; return how many there are now."""
    handle, flags = lists[home + ACCEPT], lists[home + FLAGS]
    at_root = places[first] == 0
    deepest = elements[places[first], LEVEL]
    for p in range(first + 1, last):
        at_root |= places[p] == 0
        deepest = max(deepest, elements[places[p], LEVEL])
    at_root &= elements[0, EXACT] != 0
    edge = flags & EDGE_BITS
    # Written always and counted only if it holds: which of the two it will be cannot be predicted.
    found[total] = handle
    total += (handle >= 0) & (((edge == 0) & at_root) | ((edge != 0) & (deepest >= edge)))
    if flags & FURTHER:
        handle = handles[handle, NEXT]
        while handle >= 0:
            edge = handles[handle, EDGE]
            found[total] = handle
            total += at_root if edge == 0 else deepest >= edge
            handle = handles[handle, NEXT]
    return total


@njit(cache=True, inline="always", _nrt=False)
def _take_up(
    home: int, first: int, last: int, counts: Longs, lists: Ints, slot: Ints, seen: Ints, work: Ints
) -> None:
    """Note that the node of the entry at `home` fits at places[first:last]: for those who look, and as work to do."""
    top = counts[WORK]
    prefetch(lists, lists[home + LIST])
    work[top, W_LIST] = lists[home + LIST]
    work[top, W_LENGTH] = lists[home + LENGTH]
    work[top, W_SIZE] = lists[home + SIZE]
    work[top, W_BEGIN] = first
    work[top, W_END] = last
    counts[WORK] = top + (lists[home + LENGTH] > 0)
    if lists[home + FLAGS] & WATCHED:
        at = counts[SEEN]
        slot[lists[home + NODE]] = at
        seen[at, S_NODE] = lists[home + NODE]
        seen[at, S_BEGIN] = first
        seen[at, S_END] = last
        counts[SEEN] = at + 1


@njit(cache=True, inline="always", _nrt=False)
def _put_off(home: int, first: int, last: int, counts: Longs, lists: Ints, later: Ints, heads: Ints) -> None:
    """Put off the node of the entry at `home`, which may fit at places[first:last], by its rank."""
    rank = lists[home + OTHER_EDGE] >> RANK_SHIFT
    at = counts[LATER]
    later[at, L_HOME] = home
    later[at, L_BEGIN] = first
    later[at, L_END] = last
    later[at, L_NEXT] = heads[rank]
    heads[rank] = at
    counts[LATER] = at + 1


@njit(cache=True, inline="always", _nrt=False)
def _take_up_leaves(
    size: int,
    pair_count: int,
    pairs: Ints,
    symbols: Ints,
    lists: Ints,
    handles: Ints,
    slot: Ints,
    seen: Ints,
    work: Ints,
    places: Ints,
    chains: Ints,
    elements: Ints,
    found: Ints,
    counts: Longs,
) -> tuple[int, int]:
    """Take up the leaves of the wildcard and of the symbols in the target; return the end of places and handles found."""
    end = total = 0
    if symbols[WILDCARD_SYMBOL, LEAF] >= 0:
        for element in range(size):
            places[element] = element
        end = size
        home = symbols[WILDCARD_SYMBOL, LEAF]
        _take_up(home, 0, end, counts, lists, slot, seen, work)
        total = _accept(home, 0, end, total, lists, handles, places, elements, found)
    for k in range(pair_count - 1, -1, -1):
        if pairs[k, 0] >= 0:
            pairs[k, 2] = chains[pairs[k, 0], CHAIN_HEAD]
            chains[pairs[k, 0], CHAIN_HEAD] = k
    for k in range(pair_count):
        symbol = pairs[k, 0]
        if symbol >= 0 and chains[symbol, CHAIN_HEAD] == k and symbols[symbol, LEAF] >= 0:
            start = end
            pair = k
            while pair >= 0:
                places[end] = pairs[pair, 1]
                end += 1
                pair = pairs[pair, 2]
            home = symbols[symbol, LEAF]
            _take_up(home, start, end, counts, lists, slot, seen, work)
            total = _accept(home, start, end, total, lists, handles, places, elements, found)
    return end, total


@njit(cache=True, _nrt=False)
def run(
    size: int,
    pair_count: int,
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
    """Fill `found` with the handles whose pattern maps into the target; return how many.

    The first `size` rows of `elements` are the target's; the first `pair_count` of `pairs` (symbol, element, -) say what
    occurs where. `seen`, `work`, `later` and `order` have room for every node and one more, `found` for every handle and
    one more, `places` for the target's elements and pairs; `chains` and `heads` are all -1 and are left so. When
    `places` turns out too small the answer is -1.
    """
    counts[WORK] = counts[SEEN] = counts[LATER] = 0
    wildcard_leaf = -1
    if symbols[WILDCARD_SYMBOL, LEAF] >= 0:
        wildcard_leaf = lists[symbols[WILDCARD_SYMBOL, LEAF] + NODE]
    end, total = _take_up_leaves(
        size, pair_count, pairs, symbols, lists, handles, slot, seen, work, places, chains, elements, found, counts
    )
    visit = rank = 0
    while rank < len(heads):
        while counts[WORK] > 0:
            counts[WORK] -= 1
            top = counts[WORK]
            block, length = work[top, W_LIST], work[top, W_LENGTH]
            first, last = work[top, W_BEGIN], work[top, W_END]
            homes = block + (1 << work[top, W_SIZE])
            visit += 1
            place = places[first]
            single = last - first == 1
            listed = 0
            hits = length
            if single:
                hits = _hits(block, length, _parent_label(place, elements), _labels_above(place, elements), lists, order)
            else:
                listed = _chain_above(visit, first, last, places, elements, chains)
            for h in range(hits):
                k = order[h] if single else h
                key = lists[block + k]
                edge = key >> EDGE_SHIFT
                symbol = key & SYMBOL_BITS
                start = end
                if end + size > len(places):
                    total = -1
                    break
                if single:
                    end = _above_one(place, edge, symbol, elements, places, end)
                else:
                    end = _above_many(visit, first, last, edge, symbol, listed, chains, elements, places, end)
                if end == start:
                    continue
                home = homes + k * ENTRY_COLUMNS
                if key & MORE:
                    _put_off(home, start, end, counts, lists, later, heads)
                else:
                    _take_up(home, start, end, counts, lists, slot, seen, work)
                    total = _accept(home, start, end, total, lists, handles, places, elements, found)
            if total < 0:
                counts[WORK] = 0
        at = heads[rank]
        heads[rank] = -1
        while at >= 0 and total >= 0:
            home, start = later[at, L_HOME], later[at, L_BEGIN]
            stop = _keep_where_all_fit(
                home,
                start,
                later[at, L_END],
                counts[SEEN],
                wildcard_leaf,
                nodes,
                lists,
                kids,
                slot,
                seen,
                places,
                elements,
            )
            if stop > start:
                _take_up(home, start, stop, counts, lists, slot, seen, work)
                total = _accept(home, start, stop, total, lists, handles, places, elements, found)
            at = later[at, L_NEXT]
        if counts[WORK] == 0:
            rank += 1
    for k in range(pair_count):
        if pairs[k, 0] >= 0:
            chains[pairs[k, 0], CHAIN_FOR] = -1
            chains[pairs[k, 0], CHAIN_HEAD] = -1
    return total
