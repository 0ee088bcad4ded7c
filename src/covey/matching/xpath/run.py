"""The kernel that runs all patterns at once over one target, bottom up.

For every node of the shared graph that fits somewhere in the target, the kernel lists where: its places. It starts with
the leaves whose symbol occurs in the target and goes on only to the lists of nodes that fit.

A node with one kid fits where its kid's places allow, so it can be taken up at any time; last in, first out visits the
lists in the order in which they lie in memory, but for a short delay in which memory delivers what was asked for. A
node with several kids waits for its access kid, which is of the highest rank among them. Where the target has nothing
like its other kid it is dropped at once, else put off until nothing else is left to do and it is of the lowest rank put
off: by then all of lower rank, its other kids among them, are settled. A node at which others look is found by `slot`,
which needs no clearing between runs: it counts only if `seen` holds the node in that place.

The target is a document, for matching, or a pattern, for finding those that cover it; containment.py has the rules.
"""

from __future__ import annotations

from covey.matching.jit import Ints, Longs, kernel, part, pointer_to, prefetch
from covey.matching.xpath.above import (
    chain_above,
    fits_above,
    kid_fits,
    labels_above,
    places_above_many,
    places_above_one,
)
from covey.matching.xpath.memory import (
    EDGE_BITS,
    EDGE_SHIFT,
    ENTRY_COLUMNS,
    FURTHER,
    MANY,
    MAX_RANKS,
    MORE,
    OTHER_SHIFT,
    PLACES_ROOM,
    RANK_BITS,
    RANK_SHIFT,
    SYMBOL_BITS,
    WATCHED,
    WILDCARD_SYMBOL,
    Chain,
    Element,
    Entry,
    Filed,
    Later,
    Memory,
    Node,
    Pair,
    Seen,
    Symbol,
    Work,
    memory_at,
)
from covey.matching.xpath.target import lay_target

# Cells in a line of the processor's cache, and how many younger pieces of work a piece lets pass.
LINE = 16
DELAY = 3


@part
def _take_up(m: Memory, home: int, first: int, last: int, work: int, seen: int) -> tuple[int, int]:
    """Note that the node of the entry at `home` fits at places[first:last]: as work to do, and for those who look.

    Returns how much work there is and how many are seen.
    """
    entry = Entry(m, home)
    block, length, flags = entry.list, entry.length, entry.flags
    prefetch(m.lists, block)
    prefetch(m.lists, block + LINE)
    row = Work(m, work)
    row.list = block
    row.length = length
    row.size = entry.size
    row.begin = first
    row.end = last
    # Written always and counted only if others look at it: which of the two it will be cannot be predicted.
    node = entry.node
    m.slot[node] = seen
    Seen(m, seen).node = node
    Seen(m, seen).begin = first
    Seen(m, seen).end = last
    return work + (length > 0), seen + ((flags & WATCHED) != 0)


@part
def _accept(m: Memory, home: int, first: int, last: int, total: int) -> int:
    """Append the handles whose filter's top is the node of the entry at `home`; return how many there are now."""
    entry = Entry(m, home)
    handle, flags = entry.accept, entry.flags
    at_root = m.places[first] == 0
    deepest = Element(m, m.places[first]).level
    for p in range(first + 1, last):
        at_root |= m.places[p] == 0
        deepest = max(deepest, Element(m, m.places[p]).level)
    at_root &= Element(m, 0).exact != 0
    edge = flags & EDGE_BITS
    # Written always and counted only if it holds: which of the two it will be cannot be predicted.
    m.found[total] = handle
    total += (handle >= 0) & (((edge == 0) & at_root) | ((edge != 0) & (deepest >= edge)))
    if flags & FURTHER:
        handle = Filed(m, handle).next
        while handle >= 0:
            edge = Filed(m, handle).edge
            m.found[total] = handle
            total += ((edge == 0) & at_root) | ((edge != 0) & (deepest >= edge))
            handle = Filed(m, handle).next
    return total


@part
def _keep_where_other_may_fit(m: Memory, home: int, first: int, last: int) -> int:
    """Keep of places[first:last] those that have the label or test of the other kid below; return the new end."""
    about_other = Entry(m, home).other_edge
    bit, is_child = about_other >> OTHER_SHIFT, about_other & EDGE_BITS == 0
    kept = first
    for p in range(first, last):
        m.places[kept] = m.places[p]
        element = Element(m, m.places[p])
        kept += ((element.labels_of_children if is_child else element.labels_below) >> bit) & 1
    return kept


@part
def _put_off(m: Memory, home: int, first: int, last: int, later: int) -> int:
    """Put off the node of the entry at `home`, which may fit at places[first:last], by its rank, and return that."""
    entry = Entry(m, home)
    rank = (entry.other_edge >> RANK_SHIFT) & RANK_BITS
    row = Later(m, later)
    prefetch(m.slot, entry.other)
    row.home = home
    row.begin = first
    row.end = last
    row.next = m.heads[rank]
    m.heads[rank] = later
    return rank


@part
def _keep_where_fits(
    m: Memory, kid: int, edge: int, first: int, last: int, seen: int, wildcard_leaf: int
) -> int:
    """Keep of places[first:last], where a parent may be, those that a kid of it allows; return the new end."""
    kept = first
    if kid == wildcard_leaf:
        for p in range(first, last):
            row = Element(m, m.places[p])
            m.places[kept] = m.places[p]
            kept += row.deepest - row.level >= edge
        return kept
    number = m.slot[kid]
    at = Seen(m, number)
    if number < seen and at.node == kid:
        for p in range(first, last):
            m.places[kept] = m.places[p]
            kept += kid_fits(m, edge, m.places[p], at.begin, at.end)
    return kept


@part
def _keep_where_all_fit(m: Memory, home: int, first: int, last: int, seen: int, wildcard_leaf: int) -> int:
    """Keep of places[first:last] those that all kids but the access kid allow; return the new end."""
    entry = Entry(m, home)
    kid, edge = entry.other, entry.other_edge & EDGE_BITS
    last = _keep_where_fits(m, kid, edge, first, last, seen, wildcard_leaf)
    if last > first and entry.flags & MANY:
        row = Node(m, entry.node)
        start = row.kids
        for k in range(start, start + row.kid_count):
            if k - start != row.access:
                last = _keep_where_fits(
                    m, m.kids[k] >> 8, m.kids[k] & EDGE_BITS, first, last, seen, wildcard_leaf
                )
    return last


@part
def _chain_pairs(m: Memory, pairs: int) -> None:
    """Chain the pairs of the same symbol; the head of a chain is its first pair."""
    for k in range(pairs - 1, -1, -1):
        symbol = Pair(m, k).symbol
        Pair(m, k).next = Chain(m, symbol).head
        Chain(m, symbol).head = k


@part
def _take_up_leaves(m: Memory, size: int, pairs: int) -> tuple[int, int, int, int]:
    """Take up the leaves of the wildcard and of the symbols in the target.

    Returns how much work there is, how many nodes are seen, the end of the places and how many handles are found.
    """
    work = seen = end = total = 0
    home = Symbol(m, WILDCARD_SYMBOL).leaf
    if home > 0:
        for element in range(size):
            m.places[element] = element
        end = size
        work, seen = _take_up(m, home, 0, end, work, seen)
        total = _accept(m, home, 0, end, total)
    _chain_pairs(m, pairs)
    for k in range(pairs):
        symbol = Pair(m, k).symbol
        home = Symbol(m, symbol).leaf
        if home > 0 and Chain(m, symbol).head == k:
            start = end
            pair = k
            while pair >= 0:
                m.places[end] = Pair(m, pair).element
                end += 1
                pair = Pair(m, pair).next
            work, seen = _take_up(m, home, start, end, work, seen)
            total = _accept(m, home, start, end, total)
    return work, seen, end, total


@part
def _run(m: Memory, size: int, pairs: int) -> int:
    """Fill `found` with the handles whose pattern maps into the target that is laid out; return how many.

    Returns -1 when there is not enough room for places.
    """
    wildcard_leaf = -1
    if Symbol(m, WILDCARD_SYMBOL).leaf > 0:
        wildcard_leaf = Entry(m, Symbol(m, WILDCARD_SYMBOL).leaf).node
    work, seen, end, total = _take_up_leaves(m, size, pairs)
    later = visit = rank = top_rank = 0
    while rank <= top_rank or work > 0:
        while work > 0:
            work -= 1
            visit += 1
            row = Work(m, max(work - DELAY, 0))
            block, length = row.list, row.length
            first, last = row.begin, row.end
            homes = block + (1 << row.size)
            youngest = Work(m, work)
            row.list, row.length, row.size = youngest.list, youngest.length, youngest.size
            row.begin, row.end = youngest.begin, youngest.end
            place = m.places[first]
            single = last - first == 1
            listed = 0
            parents, above = labels_above(m, first, last)
            hits = fits_above(m, parents, above, block, length)
            if not single and hits:
                listed = chain_above(m, visit, first, last)
            for h in range(hits):
                k = m.order[h]
                key = m.lists[block + k]
                edge, symbol = key >> EDGE_SHIFT, key & SYMBOL_BITS
                if end + size > m.state[PLACES_ROOM]:
                    return -1
                start = end
                if single:
                    end = places_above_one(m, place, edge, symbol, end)
                else:
                    end = places_above_many(m, visit, first, last, edge, symbol, listed, end)
                if end == start:
                    continue
                home = homes + k * ENTRY_COLUMNS
                if key & MORE:
                    end = _keep_where_other_may_fit(m, home, start, end)
                    if end > start:
                        top_rank = max(top_rank, _put_off(m, home, start, end, later))
                        later += 1
                else:
                    work, seen = _take_up(m, home, start, end, work, seen)
                    total = _accept(m, home, start, end, total)
        at = m.heads[rank]
        m.heads[rank] = -1
        while at >= 0:
            put_off = Later(m, at)
            home, start = put_off.home, put_off.begin
            stop = _keep_where_all_fit(m, home, start, put_off.end, seen, wildcard_leaf)
            if stop > start:
                work, seen = _take_up(m, home, start, stop, work, seen)
                total = _accept(m, home, start, stop, total)
            at = put_off.next
        if work == 0:
            rank += 1
    return total


@kernel
def run_target(addresses: Longs, rows: Ints, size: int, tests: Ints, test_count: int) -> int:
    """Fill `found` with the handles whose pattern maps into the target; return how many.

    The target has `size` elements, in `rows` as `TargetRow`, in document order; the first `test_count` of `tests` are
    the tests that hold, as `TargetTest`. The store has made room in all that a run
    writes; when the room for places turns out too small the answer is -1.
    """
    m = memory_at(addresses)
    pairs = lay_target(m, pointer_to(rows), size, pointer_to(tests), test_count)
    total = _run(m, size, pairs)
    for k in range(pairs):
        symbol = Pair(m, k).symbol
        Chain(m, symbol).visit = -1
        Chain(m, symbol).head = -1
    if total < 0:
        for rank in range(MAX_RANKS):
            m.heads[rank] = -1
    return total
