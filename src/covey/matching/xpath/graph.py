"""Kernels that put patterns into the shared graph and take them out again.

A pattern arrives as its nodes in postorder, one row (symbol, edge, number of kids) each. Every node is looked up by
content and made only if it is new; it then counts as a reference to its kids. A node whose references are gone is
removed, and what it held with it.

The access kid of a node is one of the highest rank (the longest way to a leaf), of those the one with the
shortest list.
"""

from __future__ import annotations

import numpy as np

from covey.matching.jit import Ints, Longs, ints_at, kernel, part
from covey.matching.xpath.blocks import (
    append_entry,
    enter_table,
    find_node,
    give_list,
    hash_of,
    leave_table,
    remove_entry,
    size_for,
    sort_list,
    take_list,
)
from covey.matching.xpath.memory import (
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
    HANDLE_COLUMNS,
    HASH,
    HOME,
    KID_COUNT,
    KIDS,
    KIDS_COUNT,
    KIDS_ROOM,
    LEAF,
    LENGTH,
    LIST,
    LIST_COUNT,
    LIST_ROOM,
    LIVE_NODES,
    MANY,
    MORE,
    NEXT,
    NODE,
    NODE_COLUMNS,
    NODE_COUNT,
    OTHER,
    OTHER_EDGE,
    OTHER_SHIFT,
    PREVIOUS,
    RANK,
    RANK_SHIFT,
    REFERENCES,
    SIZE,
    STACK_TOP,
    SYMBOL,
    SYMBOL_COLUMNS,
    TOP,
    USES,
    WATCHED,
    WATCHERS,
    Memory,
    memory_at,
)


@part
def _access_kid(m: Memory, first: int, last: int) -> int:
    best = first
    for i in range(first + 1, last):
        kid, champion = NODE_COLUMNS * (m.stack[i] >> 8), NODE_COLUMNS * (m.stack[best] >> 8)
        better = np.int64(m.nodes[kid + RANK]) - m.nodes[champion + RANK]
        if better == 0:
            better = (
                np.int64(m.lists[m.nodes[champion + HOME] + LENGTH]) - m.lists[m.nodes[kid + HOME] + LENGTH]
            )
        if better > 0:
            best = i
    return best - first


@part
def _has_room(m: Memory, first: int, last: int) -> bool:
    """Return whether both arenas have room for a new node with these kids."""
    if first == last:
        return m.state[LIST_COUNT] + BLOCK_COLUMNS <= m.state[LIST_ROOM]
    kid = m.stack[first + _access_kid(m, first, last)] >> 8
    entries = 2 << max(m.lists[m.nodes[NODE_COLUMNS * kid + HOME] + SIZE], 0)
    room = m.state[LIST_COUNT] + BLOCK_COLUMNS * entries <= m.state[LIST_ROOM]
    return room and m.state[KIDS_COUNT] + (1 << size_for(last - first)) <= m.state[KIDS_ROOM]


@part
def _new_node(m: Memory) -> int:
    m.state[LIVE_NODES] += 1
    node = m.state[FREE_NODE]
    if node >= 0:
        m.state[FREE_NODE] = m.nodes[NODE_COLUMNS * node + KIDS]
    else:
        node = m.state[NODE_COUNT]
        m.state[NODE_COUNT] = node + 1
    for column in range(NODE_COLUMNS):
        m.nodes[NODE_COLUMNS * node + column] = 0
    return node


@part
def _hold_kids(m: Memory, node: int, first: int, last: int) -> None:
    """Store the kids of a new node, with the references, ranks and watchers that follow."""
    size = size_for(last - first)
    block = m.state[FREE_KIDS + size]
    if block >= 0:
        m.state[FREE_KIDS + size] = m.kids[block]
    else:
        block = m.state[KIDS_COUNT]
        m.state[KIDS_COUNT] = block + (1 << size)
    access = _access_kid(m, first, last)
    row = NODE_COLUMNS * node
    m.nodes[row + KIDS] = block
    m.nodes[row + ACCESS] = access
    for i in range(last - first):
        m.kids[block + i] = m.stack[first + i]
        kid = NODE_COLUMNS * (m.stack[first + i] >> 8)
        m.nodes[kid + REFERENCES] += 1
        m.nodes[row + RANK] = max(m.nodes[row + RANK], m.nodes[kid + RANK] + 1)
        if i != access:
            m.nodes[kid + WATCHERS] += 1
            m.lists[m.nodes[kid + HOME] + FLAGS] |= WATCHED


@part
def _make_node(m: Memory, symbol: int, content: int, first: int, last: int) -> int:
    node = _new_node(m)
    row = NODE_COLUMNS * node
    count = last - first
    m.nodes[row + SYMBOL] = symbol
    m.nodes[row + KID_COUNT] = count
    m.nodes[row + HASH] = content
    m.symbols[SYMBOL_COLUMNS * symbol + USES] += 1
    other = np.int64(-1)
    if count == 0:
        home = take_list(m, 0) + 1
        m.symbols[SYMBOL_COLUMNS * symbol + LEAF] = home
    else:
        _hold_kids(m, node, first, last)
        chosen = m.stack[first + m.nodes[row + ACCESS]]
        key = ((chosen & EDGE_BITS) << EDGE_SHIFT) | (MORE if count > 1 else 0) | symbol
        home = append_entry(m, chosen >> 8, key)
        if count > 1:
            other = m.stack[first + (1 if m.nodes[row + ACCESS] == 0 else 0)]
    m.nodes[row + HOME] = home
    m.lists[home + NODE] = node
    m.lists[home + LIST] = 0
    m.lists[home + LENGTH] = 0
    m.lists[home + SIZE] = -1
    m.lists[home + ACCEPT] = -1
    m.lists[home + FLAGS] = MANY if count > 2 else 0
    m.lists[home + OTHER] = other >> 8
    about_other = (np.int64(m.nodes[row + RANK]) << RANK_SHIFT) | (other & EDGE_BITS)
    if count > 1:
        about_other |= np.int64(m.nodes[NODE_COLUMNS * (other >> 8) + SYMBOL] & 63) << OTHER_SHIFT
    m.lists[home + OTHER_EDGE] = about_other
    enter_table(m, node)
    return node


@part
def _note_accept(m: Memory, node: int, head: int) -> None:
    """Write into the entry of `node` that `head` is the first handle whose filter's top it is."""
    home = m.nodes[NODE_COLUMNS * node + HOME]
    flags = m.lists[home + FLAGS] & (WATCHED | MANY)
    if head >= 0:
        row = HANDLE_COLUMNS * head
        flags |= m.handles[row + EDGE] | (FURTHER if m.handles[row + NEXT] >= 0 else 0)
    m.lists[home + ACCEPT] = head
    m.lists[home + FLAGS] = flags


@kernel
def add_pattern(addresses: Longs, rows: Ints, count: int, start: int, handle: int) -> int:
    """Enter the pattern of `count` rows under `handle`, going on at row `start`; return how many rows are done.

    Stops early, to be called again with the answer as `start`, when an arena lacks room for one more node.
    """
    m = memory_at(addresses)
    top = m.state[STACK_TOP] if start else 0
    for row in range(start, count):
        symbol, edge, kid_count = rows[3 * row], rows[3 * row + 1], rows[3 * row + 2]
        first = top - kid_count
        content = hash_of(m, symbol, first, top)
        node = find_node(m, symbol, content, first, top)
        if node < 0:
            if not _has_room(m, first, top):
                m.state[STACK_TOP] = top
                return row
            node = _make_node(m, symbol, content, first, top)
        m.stack[first] = (np.int64(node) << 8) | edge
        top = first + 1
    node = m.stack[0] >> 8
    m.nodes[NODE_COLUMNS * node + REFERENCES] += 1
    head = m.lists[m.nodes[NODE_COLUMNS * node + HOME] + ACCEPT]
    at = HANDLE_COLUMNS * handle
    m.handles[at + NEXT] = head
    m.handles[at + PREVIOUS] = -1
    m.handles[at + TOP] = node
    m.handles[at + EDGE] = m.stack[0] & EDGE_BITS
    if head >= 0:
        m.handles[HANDLE_COLUMNS * head + PREVIOUS] = handle
    _note_accept(m, node, handle)
    return count


@part
def _drop_node(m: Memory, node: int, top: int) -> int:
    """Remove a node without references; push kids that lost their last one and return the new top."""
    leave_table(m, node)
    row = NODE_COLUMNS * node
    symbol, count, start, home = (
        m.nodes[row + SYMBOL],
        m.nodes[row + KID_COUNT],
        m.nodes[row + KIDS],
        m.nodes[row + HOME],
    )
    m.symbols[SYMBOL_COLUMNS * symbol + USES] -= 1
    if m.lists[home + SIZE] >= 0:
        give_list(m, m.lists[home + LIST], m.lists[home + SIZE])
    if count == 0:
        m.symbols[SYMBOL_COLUMNS * symbol + LEAF] = 0
        give_list(m, home - 1, 0)
    for i in range(count):
        kid = m.kids[start + i] >> 8
        kid_row = NODE_COLUMNS * kid
        if i == m.nodes[row + ACCESS]:
            remove_entry(m, node, kid)
        else:
            m.nodes[kid_row + WATCHERS] -= 1
            if m.nodes[kid_row + WATCHERS] == 0:
                m.lists[m.nodes[kid_row + HOME] + FLAGS] &= ~WATCHED
        m.nodes[kid_row + REFERENCES] -= 1
        if m.nodes[kid_row + REFERENCES] == 0:
            m.stack[top] = kid
            top += 1
    if count:
        size = size_for(count)
        m.kids[start] = m.state[FREE_KIDS + size]
        m.state[FREE_KIDS + size] = start
    m.nodes[row + SYMBOL] = -1
    m.nodes[row + KIDS] = m.state[FREE_NODE]
    m.state[FREE_NODE] = node
    m.state[LIVE_NODES] -= 1
    return top


@kernel
def remove_pattern(addresses: Longs, handle: int, freed: Ints) -> int:
    """Remove what is entered under `handle`; return how many symbols, listed in `freed`, are no longer used."""
    m = memory_at(addresses)
    at = HANDLE_COLUMNS * handle
    node, following, previous = m.handles[at + TOP], m.handles[at + NEXT], m.handles[at + PREVIOUS]
    if following >= 0:
        m.handles[HANDLE_COLUMNS * following + PREVIOUS] = previous
    if previous >= 0:
        m.handles[HANDLE_COLUMNS * previous + NEXT] = following
        following = m.lists[m.nodes[NODE_COLUMNS * node + HOME] + ACCEPT]
    _note_accept(m, node, following)
    m.handles[at + TOP] = -1
    m.nodes[NODE_COLUMNS * node + REFERENCES] -= 1
    top = count = 0
    if m.nodes[NODE_COLUMNS * node + REFERENCES] == 0:
        m.stack[0] = node
        top = 1
    while top:
        top -= 1
        dropped = m.stack[top]
        symbol = m.nodes[NODE_COLUMNS * dropped + SYMBOL]
        top = _drop_node(m, dropped, top)
        if m.symbols[SYMBOL_COLUMNS * symbol + USES] == 0:
            freed[count] = symbol
            count += 1
    return count


@kernel
def rebuild_table(addresses: Longs, old: Ints) -> None:
    """Put every node of the old table into the new, empty one."""
    m = memory_at(addresses)
    for i in range(len(old)):
        if old[i] >= 0:
            enter_table(m, old[i])


@kernel
def lay_out(addresses: Longs, lists: Ints, symbol_count: int, waiting: Longs) -> None:
    """Copy all lists from `lists` into the memory's, which is new, each next to those of its entries.

    A run takes up work last in, first out; it then reads what lies together. `waiting` has room for every node.
    """
    m = memory_at(addresses)
    m.state[LIST_COUNT] = 0
    for size in range(FREE_LISTS, FREE_KIDS):
        m.state[size] = -1
    for symbol in range(symbol_count):
        leaf = m.symbols[SYMBOL_COLUMNS * symbol + LEAF]
        if leaf <= 0:
            continue
        home = take_list(m, 0) + 1
        for column in range(ENTRY_COLUMNS):
            m.lists[home + column] = lists[leaf + column]
        m.symbols[SYMBOL_COLUMNS * symbol + LEAF] = home
        m.nodes[NODE_COLUMNS * m.lists[home + NODE] + HOME] = home
        waiting[0] = home
        top = 1
        while top:
            top -= 1
            home = waiting[top]
            length = m.lists[home + LENGTH]
            homes = _copy_list(m, home, ints_at(lists.ctypes.data))
            for i in range(length):
                waiting[top] = homes + i * ENTRY_COLUMNS
                top += 1


@part
def _copy_list(m: Memory, home: int, lists: Ints) -> int:
    """Copy the list of the entry at `home` from the old arena, sorted; return where its entries are."""
    length = m.lists[home + LENGTH]
    if length == 0:
        m.lists[home + SIZE] = -1
        return 0
    block, homes = m.lists[home + LIST], m.lists[home + LIST] + (1 << m.lists[home + SIZE])
    size = size_for(length)
    copy = take_list(m, size)
    copies = copy + (1 << size)
    for i in range(length):
        m.lists[copy + i] = lists[block + i]
        for column in range(ENTRY_COLUMNS):
            m.lists[copies + i * ENTRY_COLUMNS + column] = lists[homes + i * ENTRY_COLUMNS + column]
        m.nodes[NODE_COLUMNS * m.lists[copies + i * ENTRY_COLUMNS + NODE] + HOME] = copies + i * ENTRY_COLUMNS
    m.lists[home + LIST] = copy
    m.lists[home + SIZE] = size
    sort_list(m, copy, length, size)
    return copies
