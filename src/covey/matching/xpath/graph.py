"""Kernels that put patterns into the shared graph and take them out again.

A pattern arrives as its nodes in postorder, one row (symbol, edge, number of kids) each. Every node is looked up by
content and made only if it is new; it then counts as a reference to its kids. A node whose references are gone is
removed, and what it held with it.

The access kid of a node is one of the highest rank (the longest way to a leaf), of those the one with the shortest list.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covey.matching.xpath.layout import (
    ACCEPT,
    ACCESS,
    BLOCK_COLUMNS,
    EDGE,
    EDGE_BITS,
    EDGE_SHIFT,
    ENTRY_COLUMNS,
    FLAGS,
    FREE_KIDS,
    FREE_LISTS,
    FREE_NODE,
    FURTHER,
    HASH,
    HOME,
    KID_COUNT,
    KIDS,
    KIDS_COUNT,
    LEAF,
    LENGTH,
    LIST,
    LIST_COUNT,
    LIVE_NODES,
    MANY,
    MORE,
    NEXT,
    NODE,
    NODE_COUNT,
    OTHER,
    OTHER_EDGE,
    PREVIOUS,
    RANK,
    RANK_SHIFT,
    REFERENCES,
    SIZE,
    STACK_TOP,
    SYMBOL,
    TOP,
    USES,
    WATCHED,
    WATCHERS,
    Ints,
    Longs,
)


@njit(cache=True)
def _size_for(count: int) -> int:
    size = 0
    while (1 << size) < count:
        size += 1
    return size


@njit(cache=True)
def _hash(symbol: int, stack: Longs, first: int, last: int) -> int:
    mixed = np.uint64(symbol + 1) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(first, last):
        mixed = (mixed ^ np.uint64(stack[i])) * np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(32)
    mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(0x7FFFFFFF))


@njit(cache=True)
def _find(
    symbol: int, content: int, stack: Longs, first: int, last: int, nodes: Ints, kids: Longs, table: Ints
) -> int:
    """Return the node with this symbol and the kids stack[first:last], or -1."""
    mask = len(table) - 1
    slot = content & mask
    while table[slot] >= 0:
        node = table[slot]
        if (
            nodes[node, HASH] == content
            and nodes[node, SYMBOL] == symbol
            and nodes[node, KID_COUNT] == last - first
        ):
            start = nodes[node, KIDS]
            same = True
            for i in range(last - first):
                same &= kids[start + i] == stack[first + i]
            if same:
                return node
        slot = (slot + 1) & mask
    return -1


@njit(cache=True)
def _enter_table(node: int, nodes: Ints, table: Ints) -> None:
    mask = len(table) - 1
    slot = nodes[node, HASH] & mask
    while table[slot] >= 0:
        slot = (slot + 1) & mask
    table[slot] = node


@njit(cache=True)
def rebuild_table(nodes: Ints, old: Ints, table: Ints) -> None:
    """Put every node of the old table into the new, empty one."""
    for i in range(len(old)):
        if old[i] >= 0:
            _enter_table(old[i], nodes, table)


@njit(cache=True)
def _leave_table(node: int, nodes: Ints, table: Ints) -> None:
    """Take a node out of the hash table, moving up what was displaced by it."""
    mask = len(table) - 1
    slot = nodes[node, HASH] & mask
    while table[slot] != node:
        slot = (slot + 1) & mask
    hole = slot
    while True:
        slot = (slot + 1) & mask
        if table[slot] < 0:
            break
        home = nodes[table[slot], HASH] & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            table[hole] = table[slot]
            hole = slot
    table[hole] = -1


@njit(cache=True)
def _take_list(lists: Ints, state: Longs, size: int) -> int:
    """Return a block for 2^size entries; the caller has made sure that there is room."""
    block = state[FREE_LISTS + size]
    if block >= 0:
        state[FREE_LISTS + size] = lists[block]
        return block
    block = state[LIST_COUNT]
    state[LIST_COUNT] = block + (BLOCK_COLUMNS << size)
    return block


@njit(cache=True)
def _give_list(lists: Ints, state: Longs, block: int, size: int) -> None:
    lists[block] = state[FREE_LISTS + size]
    state[FREE_LISTS + size] = block


@njit(cache=True)
def _move_entry(lists: Ints, key: int, home: int, new_key: int, new_home: int, nodes: Ints) -> None:
    lists[new_key] = lists[key]
    for column in range(ENTRY_COLUMNS):
        lists[new_home + column] = lists[home + column]
    nodes[lists[new_home + NODE], HOME] = new_home


@njit(cache=True)
def _append_entry(kid: int, key: int, nodes: Ints, lists: Ints, state: Longs) -> int:
    """Make room for one more entry in the list of `kid`, write its key and return its home."""
    at = nodes[kid, HOME]
    block, length, size = lists[at + LIST], lists[at + LENGTH], lists[at + SIZE]
    if size < 0 or length == 1 << size:
        bigger = _take_list(lists, state, size + 1)
        homes, new_homes = block + (1 << size if size >= 0 else 0), bigger + (1 << (size + 1))
        for i in range(length):
            _move_entry(
                lists, block + i, homes + i * ENTRY_COLUMNS, bigger + i, new_homes + i * ENTRY_COLUMNS, nodes
            )
        if size >= 0:
            _give_list(lists, state, block, size)
        block, size = bigger, size + 1
        lists[at + LIST] = block
        lists[at + SIZE] = size
    lists[block + length] = key
    lists[at + LENGTH] = length + 1
    return block + (1 << size) + length * ENTRY_COLUMNS


@njit(cache=True)
def _remove_entry(node: int, kid: int, nodes: Ints, lists: Ints) -> None:
    """Take the entry of `node` out of the list of `kid`; the last entry takes its place."""
    at = nodes[kid, HOME]
    block, last = lists[at + LIST], lists[at + LENGTH] - 1
    homes = block + (1 << lists[at + SIZE])
    position = (nodes[node, HOME] - homes) // ENTRY_COLUMNS
    if position != last:
        _move_entry(
            lists, block + last, homes + last * ENTRY_COLUMNS, block + position, nodes[node, HOME], nodes
        )
    lists[at + LENGTH] = last


@njit(cache=True)
def _access_kid(stack: Longs, first: int, last: int, nodes: Ints, lists: Ints) -> int:
    best = first
    for i in range(first + 1, last):
        kid, champion = stack[i] >> 8, stack[best] >> 8
        better = nodes[kid, RANK] - nodes[champion, RANK]
        if better == 0:
            better = lists[nodes[champion, HOME] + LENGTH] - lists[nodes[kid, HOME] + LENGTH]
        if better > 0:
            best = i
    return best - first


@njit(cache=True)
def _has_room(
    stack: Longs, first: int, last: int, nodes: Ints, lists: Ints, kids: Longs, state: Longs
) -> bool:
    """Return whether both arenas have room for a new node with these kids."""
    if first == last:
        return state[LIST_COUNT] + BLOCK_COLUMNS <= len(lists)
    kid = stack[first + _access_kid(stack, first, last, nodes, lists)] >> 8
    entries = 2 << max(lists[nodes[kid, HOME] + SIZE], 0)
    room = state[LIST_COUNT] + BLOCK_COLUMNS * entries <= len(lists)
    return room and state[KIDS_COUNT] + (1 << _size_for(last - first)) <= len(kids)


@njit(cache=True)
def _new_node(state: Longs, nodes: Ints) -> int:
    state[LIVE_NODES] += 1
    node = state[FREE_NODE]
    if node >= 0:
        state[FREE_NODE] = nodes[node, KIDS]
    else:
        node = state[NODE_COUNT]
        state[NODE_COUNT] = node + 1
    nodes[node, :] = 0
    return node


@njit(cache=True)
def _hold_kids(node: int, stack: Longs, first: int, last: int, nodes: Ints, lists: Ints, kids: Longs, state: Longs) -> None:
    """Store the kids of a new node, with the references, ranks and watchers that follow."""
    count = last - first
    size = _size_for(count)
    block = state[FREE_KIDS + size]
    if block >= 0:
        state[FREE_KIDS + size] = kids[block]
    else:
        block = state[KIDS_COUNT]
        state[KIDS_COUNT] = block + (1 << size)
    access = _access_kid(stack, first, last, nodes, lists)
    nodes[node, KIDS] = block
    nodes[node, ACCESS] = access
    for i in range(count):
        kids[block + i] = stack[first + i]
        kid = stack[first + i] >> 8
        nodes[kid, REFERENCES] += 1
        nodes[node, RANK] = max(nodes[node, RANK], nodes[kid, RANK] + 1)
        if i != access:
            nodes[kid, WATCHERS] += 1
            lists[nodes[kid, HOME] + FLAGS] |= WATCHED


@njit(cache=True)
def _make_node(
    symbol: int,
    content: int,
    stack: Longs,
    first: int,
    last: int,
    nodes: Ints,
    lists: Ints,
    kids: Longs,
    table: Ints,
    symbols: Ints,
    state: Longs,
) -> int:
    node = _new_node(state, nodes)
    count = last - first
    nodes[node, SYMBOL] = symbol
    nodes[node, KID_COUNT] = count
    nodes[node, HASH] = content
    symbols[symbol, USES] += 1
    if count == 0:
        home = _take_list(lists, state, 0) + 1
        symbols[symbol, LEAF] = home
    else:
        _hold_kids(node, stack, first, last, nodes, lists, kids, state)
        chosen = stack[first + nodes[node, ACCESS]]
        key = ((chosen & EDGE_BITS) << EDGE_SHIFT) | (MORE if count > 1 else 0) | symbol
        home = _append_entry(chosen >> 8, key, nodes, lists, state)
    nodes[node, HOME] = home
    other = stack[first + (1 if nodes[node, ACCESS] == 0 else 0)] if count > 1 else -1
    lists[home + NODE] = node
    lists[home + LIST] = 0
    lists[home + LENGTH] = 0
    lists[home + SIZE] = -1
    lists[home + ACCEPT] = -1
    lists[home + FLAGS] = MANY if count > 2 else 0
    lists[home + OTHER] = other >> 8
    lists[home + OTHER_EDGE] = (nodes[node, RANK] << RANK_SHIFT) | (other & EDGE_BITS)
    _enter_table(node, nodes, table)
    return node


@njit(cache=True)
def _note_accept(node: int, head: int, nodes: Ints, lists: Ints, handles: Ints) -> None:
    """Write into the entry of `node` that `head` is the first handle whose filter's top it is."""
    home = nodes[node, HOME]
    flags = lists[home + FLAGS] & (WATCHED | MANY)
    if head >= 0:
        flags |= handles[head, EDGE] | (FURTHER if handles[head, NEXT] >= 0 else 0)
    lists[home + ACCEPT] = head
    lists[home + FLAGS] = flags


@njit(cache=True)
def add_pattern(
    rows: Ints,
    start: int,
    handle: int,
    nodes: Ints,
    lists: Ints,
    kids: Longs,
    table: Ints,
    symbols: Ints,
    handles: Ints,
    state: Longs,
    stack: Longs,
) -> int:
    """Enter the pattern `rows` under `handle`, going on at row `start`; return how many rows are done.

    Stops early, to be called again with the answer as `start`, when an arena lacks room for one more node. The
    caller has made sure that `nodes`, `table`, `symbols`, `handles` and `stack` have room.
    """
    top = state[STACK_TOP] if start else 0
    for row in range(start, len(rows)):
        symbol, edge, count = rows[row, 0], rows[row, 1], rows[row, 2]
        first = top - count
        content = _hash(symbol, stack, first, top)
        node = _find(symbol, content, stack, first, top, nodes, kids, table)
        if node < 0:
            if not _has_room(stack, first, top, nodes, lists, kids, state):
                state[STACK_TOP] = top
                return row
            node = _make_node(symbol, content, stack, first, top, nodes, lists, kids, table, symbols, state)
        stack[first] = (np.int64(node) << 8) | edge
        top = first + 1
    node = stack[0] >> 8
    nodes[node, REFERENCES] += 1
    head = lists[nodes[node, HOME] + ACCEPT]
    handles[handle, NEXT] = head
    handles[handle, PREVIOUS] = -1
    handles[handle, TOP] = node
    handles[handle, EDGE] = stack[0] & EDGE_BITS
    if head >= 0:
        handles[head, PREVIOUS] = handle
    _note_accept(node, handle, nodes, lists, handles)
    return len(rows)


@njit(cache=True)
def _drop_node(
    node: int,
    nodes: Ints,
    lists: Ints,
    kids: Longs,
    table: Ints,
    symbols: Ints,
    state: Longs,
    stack: Longs,
    top: int,
) -> int:
    """Remove a node without references; push kids that lost their last one and return the new top."""
    _leave_table(node, nodes, table)
    symbol, count, start, home = nodes[node, SYMBOL], nodes[node, KID_COUNT], nodes[node, KIDS], nodes[node, HOME]
    symbols[symbol, USES] -= 1
    if lists[home + SIZE] >= 0:
        _give_list(lists, state, lists[home + LIST], lists[home + SIZE])
    if count == 0:
        symbols[symbol, LEAF] = -1
        _give_list(lists, state, home - 1, 0)
    for i in range(count):
        kid = kids[start + i] >> 8
        if i == nodes[node, ACCESS]:
            _remove_entry(node, kid, nodes, lists)
        else:
            nodes[kid, WATCHERS] -= 1
            if nodes[kid, WATCHERS] == 0:
                lists[nodes[kid, HOME] + FLAGS] &= ~WATCHED
        nodes[kid, REFERENCES] -= 1
        if nodes[kid, REFERENCES] == 0:
            stack[top] = kid
            top += 1
    if count:
        size = _size_for(count)
        kids[start] = state[FREE_KIDS + size]
        state[FREE_KIDS + size] = start
    nodes[node, SYMBOL] = -1
    nodes[node, KIDS] = state[FREE_NODE]
    state[FREE_NODE] = node
    state[LIVE_NODES] -= 1
    return top


@njit(cache=True)
def remove_pattern(
    handle: int,
    nodes: Ints,
    lists: Ints,
    kids: Longs,
    table: Ints,
    symbols: Ints,
    handles: Ints,
    state: Longs,
    stack: Longs,
    freed: Ints,
) -> int:
    """Remove what is entered under `handle`; return how many symbols, listed in `freed`, are no longer used."""
    node = handles[handle, TOP]
    following, previous = handles[handle, NEXT], handles[handle, PREVIOUS]
    if following >= 0:
        handles[following, PREVIOUS] = previous
    if previous >= 0:
        handles[previous, NEXT] = following
    head = following if previous < 0 else lists[nodes[node, HOME] + ACCEPT]
    _note_accept(node, head, nodes, lists, handles)
    handles[handle, TOP] = -1
    nodes[node, REFERENCES] -= 1
    top = count = 0
    if nodes[node, REFERENCES] == 0:
        stack[0] = node
        top = 1
    while top:
        top -= 1
        node = stack[top]
        symbol = nodes[node, SYMBOL]
        top = _drop_node(node, nodes, lists, kids, table, symbols, state, stack, top)
        if symbols[symbol, USES] == 0:
            freed[count] = symbol
            count += 1
    return count


@njit(cache=True)
def _swap_entries(block: int, size: int, i: int, j: int, lists: Ints, nodes: Ints) -> None:
    lists[block + i], lists[block + j] = lists[block + j], lists[block + i]
    one = block + (1 << size) + i * ENTRY_COLUMNS
    two = block + (1 << size) + j * ENTRY_COLUMNS
    for column in range(ENTRY_COLUMNS):
        lists[one + column], lists[two + column] = lists[two + column], lists[one + column]
    nodes[lists[one + NODE], HOME] = one
    nodes[lists[two + NODE], HOME] = two


@njit(cache=True)
def _sort_list(block: int, length: int, size: int, lists: Ints, nodes: Ints) -> None:
    """Sort the entries of a list by key, in place (Shell's way: most are short, none may take long)."""
    gap = 1
    while gap < length // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, length):
            j = i
            while j >= gap and lists[block + j - gap] > lists[block + j]:
                _swap_entries(block, size, j - gap, j, lists, nodes)
                j -= gap
        gap //= 3


@njit(cache=True)
def lay_out(nodes: Ints, lists: Ints, symbols: Ints, state: Longs, new: Ints, waiting: Longs) -> None:
    """Copy all lists into `new`, each next to those of its entries, so that what a run visits lies together.

    `new` is as large as what `lists` holds at least; `waiting` has room for every node.
    """
    state[LIST_COUNT] = 0
    for size in range(FREE_LISTS, FREE_KIDS):
        state[size] = -1
    for symbol in range(len(symbols)):
        if symbols[symbol, LEAF] < 0:
            continue
        home = _take_list(new, state, 0) + 1
        for column in range(ENTRY_COLUMNS):
            new[home + column] = lists[symbols[symbol, LEAF] + column]
        symbols[symbol, LEAF] = home
        nodes[new[home + NODE], HOME] = home
        waiting[0] = home
        top = 1
        while top:
            top -= 1
            home = waiting[top]
            length = new[home + LENGTH]
            if length == 0:
                new[home + SIZE] = -1
                continue
            block, homes = new[home + LIST], new[home + LIST] + (1 << new[home + SIZE])
            size = _size_for(length)
            bigger = _take_list(new, state, size)
            new_homes = bigger + (1 << size)
            for i in range(length):
                new[bigger + i] = lists[block + i]
                for column in range(ENTRY_COLUMNS):
                    new[new_homes + i * ENTRY_COLUMNS + column] = lists[homes + i * ENTRY_COLUMNS + column]
                nodes[new[new_homes + i * ENTRY_COLUMNS + NODE], HOME] = new_homes + i * ENTRY_COLUMNS
            new[home + LIST] = bigger
            new[home + SIZE] = size
            _sort_list(bigger, length, size, new, nodes)
            for i in range(length):
                waiting[top] = new_homes + i * ENTRY_COLUMNS
                top += 1
