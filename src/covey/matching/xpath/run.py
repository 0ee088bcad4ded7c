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

from covey.matching.jit import Ints, Longs, kernel, part, prefetch
from covey.matching.xpath.above import (
    chain_above,
    fits_above,
    kid_fits,
    labels_above,
    places_above_many,
    places_above_one,
)
from covey.matching.xpath.memory import (
    ACCEPT,
    ACCESS,
    CHAIN_COLUMNS,
    CHAIN_FOR,
    CHAIN_HEAD,
    DEEPEST,
    EDGE,
    EDGE_BITS,
    EDGE_SHIFT,
    ELEMENT_COLUMNS,
    ENTRY_COLUMNS,
    EXACT,
    FLAGS,
    FURTHER,
    HANDLE_COLUMNS,
    KID_COUNT,
    KIDS,
    L_BEGIN,
    L_END,
    L_HOME,
    L_NEXT,
    LABELS_BELOW,
    LABELS_OF_CHILDREN,
    LATER_COLUMNS,
    LEAF,
    LENGTH,
    LEVEL,
    LIST,
    MANY,
    MAX_RANKS,
    MORE,
    NEXT,
    NODE,
    NODE_COLUMNS,
    OTHER,
    OTHER_EDGE,
    OTHER_SHIFT,
    P_ELEMENT,
    P_NEXT,
    P_SYMBOL,
    PAIR_COLUMNS,
    PLACES_ROOM,
    RANK_BITS,
    RANK_SHIFT,
    S_BEGIN,
    S_END,
    S_NODE,
    SEEN_COLUMNS,
    SIZE,
    SYMBOL_BITS,
    SYMBOL_COLUMNS,
    W_BEGIN,
    W_END,
    W_LENGTH,
    W_LIST,
    W_SIZE,
    WATCHED,
    WILDCARD_SYMBOL,
    WORK_COLUMNS,
    Memory,
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
    block, length, flags = m.lists[home + LIST], m.lists[home + LENGTH], m.lists[home + FLAGS]
    prefetch(m.lists, block)
    prefetch(m.lists, block + LINE)
    row = WORK_COLUMNS * work
    m.work[row + W_LIST] = block
    m.work[row + W_LENGTH] = length
    m.work[row + W_SIZE] = m.lists[home + SIZE]
    m.work[row + W_BEGIN] = first
    m.work[row + W_END] = last
    # Written always and counted only if others look at it: which of the two it will be cannot be predicted.
    node = m.lists[home + NODE]
    m.slot[node] = seen
    m.seen[SEEN_COLUMNS * seen + S_NODE] = node
    m.seen[SEEN_COLUMNS * seen + S_BEGIN] = first
    m.seen[SEEN_COLUMNS * seen + S_END] = last
    return work + (length > 0), seen + ((flags & WATCHED) != 0)


@part
def _accept(m: Memory, home: int, first: int, last: int, total: int) -> int:
    """Append the handles whose filter's top is the node of the entry at `home`; return how many there are now."""
    handle, flags = m.lists[home + ACCEPT], m.lists[home + FLAGS]
    at_root = m.places[first] == 0
    deepest = m.elements[ELEMENT_COLUMNS * m.places[first] + LEVEL]
    for p in range(first + 1, last):
        at_root |= m.places[p] == 0
        deepest = max(deepest, m.elements[ELEMENT_COLUMNS * m.places[p] + LEVEL])
    at_root &= m.elements[EXACT] != 0
    edge = flags & EDGE_BITS
    # Written always and counted only if it holds: which of the two it will be cannot be predicted.
    m.found[total] = handle
    total += (handle >= 0) & (((edge == 0) & at_root) | ((edge != 0) & (deepest >= edge)))
    if flags & FURTHER:
        handle = m.handles[HANDLE_COLUMNS * handle + NEXT]
        while handle >= 0:
            edge = m.handles[HANDLE_COLUMNS * handle + EDGE]
            m.found[total] = handle
            total += ((edge == 0) & at_root) | ((edge != 0) & (deepest >= edge))
            handle = m.handles[HANDLE_COLUMNS * handle + NEXT]
    return total


@part
def _keep_where_other_may_fit(m: Memory, home: int, first: int, last: int) -> int:
    """Keep of places[first:last] those that have the label or test of the other kid below; return the new end."""
    about_other = m.lists[home + OTHER_EDGE]
    bit = about_other >> OTHER_SHIFT
    cell = (LABELS_OF_CHILDREN if about_other & EDGE_BITS == 0 else LABELS_BELOW) + (bit >> 5)
    kept = first
    for p in range(first, last):
        m.places[kept] = m.places[p]
        kept += (m.elements[ELEMENT_COLUMNS * m.places[p] + cell] >> (bit & 31)) & 1
    return kept


@part
def _put_off(m: Memory, home: int, first: int, last: int, later: int) -> int:
    """Put off the node of the entry at `home`, which may fit at places[first:last], by its rank, and return that."""
    rank = (m.lists[home + OTHER_EDGE] >> RANK_SHIFT) & RANK_BITS
    row = LATER_COLUMNS * later
    prefetch(m.slot, m.lists[home + OTHER])
    m.later[row + L_HOME] = home
    m.later[row + L_BEGIN] = first
    m.later[row + L_END] = last
    m.later[row + L_NEXT] = m.heads[rank]
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
            row = ELEMENT_COLUMNS * m.places[p]
            m.places[kept] = m.places[p]
            kept += m.elements[row + DEEPEST] - m.elements[row + LEVEL] >= edge
        return kept
    at = SEEN_COLUMNS * m.slot[kid]
    if at < SEEN_COLUMNS * seen and m.seen[at + S_NODE] == kid:
        for p in range(first, last):
            m.places[kept] = m.places[p]
            kept += kid_fits(m, edge, m.places[p], m.seen[at + S_BEGIN], m.seen[at + S_END])
    return kept


@part
def _keep_where_all_fit(m: Memory, home: int, first: int, last: int, seen: int, wildcard_leaf: int) -> int:
    """Keep of places[first:last] those that all kids but the access kid allow; return the new end."""
    kid, edge = m.lists[home + OTHER], m.lists[home + OTHER_EDGE] & EDGE_BITS
    last = _keep_where_fits(m, kid, edge, first, last, seen, wildcard_leaf)
    if last > first and m.lists[home + FLAGS] & MANY:
        row = NODE_COLUMNS * m.lists[home + NODE]
        start = m.nodes[row + KIDS]
        for k in range(start, start + m.nodes[row + KID_COUNT]):
            if k - start != m.nodes[row + ACCESS]:
                last = _keep_where_fits(
                    m, m.kids[k] >> 8, m.kids[k] & EDGE_BITS, first, last, seen, wildcard_leaf
                )
    return last


@part
def _chain_pairs(m: Memory, pairs: int) -> None:
    """Chain the pairs of the same symbol; the head of a chain is its first pair."""
    for k in range(pairs - 1, -1, -1):
        symbol = m.pairs[PAIR_COLUMNS * k + P_SYMBOL]
        m.pairs[PAIR_COLUMNS * k + P_NEXT] = m.chains[CHAIN_COLUMNS * symbol + CHAIN_HEAD]
        m.chains[CHAIN_COLUMNS * symbol + CHAIN_HEAD] = k


@part
def _take_up_leaves(m: Memory, size: int, pairs: int) -> tuple[int, int, int, int]:
    """Take up the leaves of the wildcard and of the symbols in the target.

    Returns how much work there is, how many nodes are seen, the end of the places and how many handles are found.
    """
    work = seen = end = total = 0
    home = m.symbols[SYMBOL_COLUMNS * WILDCARD_SYMBOL + LEAF]
    if home > 0:
        for element in range(size):
            m.places[element] = element
        end = size
        work, seen = _take_up(m, home, 0, end, work, seen)
        total = _accept(m, home, 0, end, total)
    _chain_pairs(m, pairs)
    for k in range(pairs):
        symbol = m.pairs[PAIR_COLUMNS * k + P_SYMBOL]
        home = m.symbols[SYMBOL_COLUMNS * symbol + LEAF]
        if home > 0 and m.chains[CHAIN_COLUMNS * symbol + CHAIN_HEAD] == k:
            start = end
            pair = k
            while pair >= 0:
                m.places[end] = m.pairs[PAIR_COLUMNS * pair + P_ELEMENT]
                end += 1
                pair = m.pairs[PAIR_COLUMNS * pair + P_NEXT]
            work, seen = _take_up(m, home, start, end, work, seen)
            total = _accept(m, home, start, end, total)
    return work, seen, end, total


@part
def _run(m: Memory, size: int, pairs: int) -> int:
    """Fill `found` with the handles whose pattern maps into the target that is laid out; return how many.

    Returns -1 when there is not enough room for places.
    """
    wildcard_leaf = -1
    if m.symbols[SYMBOL_COLUMNS * WILDCARD_SYMBOL + LEAF] > 0:
        wildcard_leaf = m.lists[m.symbols[SYMBOL_COLUMNS * WILDCARD_SYMBOL + LEAF] + NODE]
    work, seen, end, total = _take_up_leaves(m, size, pairs)
    later = visit = rank = top_rank = 0
    while rank <= top_rank or work > 0:
        while work > 0:
            work -= 1
            visit += 1
            row = WORK_COLUMNS * max(work - DELAY, 0)
            block, length = m.work[row + W_LIST], m.work[row + W_LENGTH]
            first, last = m.work[row + W_BEGIN], m.work[row + W_END]
            homes = block + (1 << m.work[row + W_SIZE])
            for column in range(W_END + 1):
                m.work[row + column] = m.work[WORK_COLUMNS * work + column]
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
            row = LATER_COLUMNS * at
            home, start = m.later[row + L_HOME], m.later[row + L_BEGIN]
            stop = _keep_where_all_fit(m, home, start, m.later[row + L_END], seen, wildcard_leaf)
            if stop > start:
                work, seen = _take_up(m, home, start, stop, work, seen)
                total = _accept(m, home, start, stop, total)
            at = m.later[row + L_NEXT]
        if work == 0:
            rank += 1
    return total


@kernel
def run_target(addresses: Longs, rows: Ints, size: int, tests: Ints, test_count: int) -> int:
    """Fill `found` with the handles whose pattern maps into the target; return how many.

    The target has `size` elements, in `rows` as (parent, exact, level, symbol), in document order; the first
    `test_count` of `tests` are the (symbol, element) of the tests that hold. The store has made room in all that a run
    writes; when the room for places turns out too small the answer is -1.
    """
    m = memory_at(addresses)
    pairs = lay_target(m, rows, size, tests, test_count)
    total = _run(m, size, pairs)
    for k in range(pairs):
        symbol = m.pairs[PAIR_COLUMNS * k + P_SYMBOL]
        m.chains[CHAIN_COLUMNS * symbol + CHAIN_FOR] = -1
        m.chains[CHAIN_COLUMNS * symbol + CHAIN_HEAD] = -1
    if total < 0:
        for rank in range(MAX_RANKS):
            m.heads[rank] = -1
    return total
