"""Kernels that put patterns into the shared graph and take them out again.

A pattern arrives as its nodes in postorder, one row (symbol, edge, number of kids) each. Every node is looked up by
content and made only if it is new; it then counts as a reference to its kids. A node whose references are gone is
removed, and what it held with it.

The access kid of a node is one of the highest rank (the longest way to a leaf), of those the one with the
shortest list.
"""

from __future__ import annotations

import numpy as np

from covey.matching.jit import Ints, Longs, kernel, part, pointer_to
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
    BLOCK_COLUMNS,
    EDGE_BITS,
    EDGE_SHIFT,
    ENTRY_COLUMNS,
    FREE_KIDS,
    FREE_LISTS,
    FREE_NODE,
    FURTHER,
    KIDS_COUNT,
    KIDS_ROOM,
    LIST_COUNT,
    LIST_ROOM,
    LIVE_NODES,
    MANY,
    MORE,
    NODE_COLUMNS,
    NODE_COUNT,
    OTHER_SHIFT,
    RANK_SHIFT,
    STACK_TOP,
    WATCHED,
    Entry,
    Filed,
    Memory,
    Node,
    PatternRow,
    Symbol,
    memory_at,
)


@part
def _access_kid(m: Memory, first: int, last: int) -> int:
    best = first
    for i in range(first + 1, last):
        kid, champion = Node(m, m.stack[i] >> 8), Node(m, m.stack[best] >> 8)
        better = kid.rank - champion.rank
        if better == 0:
            better = Entry(m, champion.home).length - Entry(m, kid.home).length
        if better > 0:
            best = i
    return best - first


@part
def _has_room(m: Memory, first: int, last: int) -> bool:
    """Return whether both arenas have room for a new node with these kids."""
    if first == last:
        return m.state[LIST_COUNT] + BLOCK_COLUMNS <= m.state[LIST_ROOM]
    kid = m.stack[first + _access_kid(m, first, last)] >> 8
    entries = 2 << max(Entry(m, Node(m, kid).home).size, 0)
    room = m.state[LIST_COUNT] + BLOCK_COLUMNS * entries <= m.state[LIST_ROOM]
    return room and m.state[KIDS_COUNT] + (1 << size_for(last - first)) <= m.state[KIDS_ROOM]


@part
def _new_node(m: Memory) -> int:
    m.state[LIVE_NODES] += 1
    node = m.state[FREE_NODE]
    if node >= 0:
        m.state[FREE_NODE] = Node(m, node).kids
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
    row = Node(m, node)
    row.kids = block
    row.access = access
    for i in range(last - first):
        m.kids[block + i] = m.stack[first + i]
        kid = Node(m, m.stack[first + i] >> 8)
        kid.references += 1
        row.rank = max(row.rank, kid.rank + 1)
        if i != access:
            kid.watchers += 1
            Entry(m, kid.home).flags |= WATCHED


@part
def _make_node(m: Memory, symbol: int, content: int, first: int, last: int) -> int:
    counted = Symbol(m, symbol)
    node = _new_node(m)
    row = Node(m, node)
    count = last - first
    row.symbol = symbol
    row.kid_count = count
    row.hash = content
    counted.uses += 1
    other = -1
    if count == 0:
        home = take_list(m, 0) + 1
        counted.leaf = home
    else:
        _hold_kids(m, node, first, last)
        chosen = m.stack[first + row.access]
        key = ((chosen & EDGE_BITS) << EDGE_SHIFT) | (MORE if count > 1 else 0) | symbol
        home = append_entry(m, chosen >> 8, key)
        if count > 1:
            other = m.stack[first + (1 if row.access == 0 else 0)]
    row.home = home
    entry = Entry(m, home)
    entry.node = node
    entry.list = 0
    entry.length = 0
    entry.size = -1
    entry.accept = -1
    entry.flags = MANY if count > 2 else 0
    entry.other = other >> 8
    about_other = (row.rank << RANK_SHIFT) | (other & EDGE_BITS)
    if count > 1:
        about_other |= (Node(m, other >> 8).symbol & 63) << OTHER_SHIFT
    entry.other_edge = about_other
    enter_table(m, node)
    return node


@part
def _note_accept(m: Memory, node: int, head: int) -> None:
    """Write into the entry of `node` that `head` is the first handle whose filter's top it is."""
    home = Node(m, node).home
    entry = Entry(m, home)
    flags = entry.flags & (WATCHED | MANY)
    if head >= 0:
        row = Filed(m, head)
        flags |= row.edge | (FURTHER if row.next >= 0 else 0)
    entry.accept = head
    entry.flags = flags


@kernel
def add_pattern(addresses: Longs, rows: Ints, count: int, start: int, handle: int) -> int:
    """Enter the pattern of `count` rows under `handle`, going on at row `start`; return how many rows are done.

    Rows are those of `PatternRow`. It stops early, to be called again with the answer as `start`, when an arena lacks
    room for one more node.
    """
    m, given = memory_at(addresses), pointer_to(rows)
    top = m.state[STACK_TOP] if start else 0
    for number in range(start, count):
        row = PatternRow(given, number)
        symbol, first = row.symbol, top - row.kid_count
        content = hash_of(m, symbol, first, top)
        node = find_node(m, symbol, content, first, top)
        if node < 0:
            if not _has_room(m, first, top):
                m.state[STACK_TOP] = top
                return number
            node = _make_node(m, symbol, content, first, top)
        m.stack[first] = (np.int64(node) << 8) | row.edge
        top = first + 1
    node = m.stack[0] >> 8
    Node(m, node).references += 1
    head = Entry(m, Node(m, node).home).accept
    at = Filed(m, handle)
    at.next = head
    at.previous = -1
    at.top = node
    at.edge = m.stack[0] & EDGE_BITS
    if head >= 0:
        Filed(m, head).previous = handle
    _note_accept(m, node, handle)
    return count


@part
def _drop_node(m: Memory, node: int, top: int) -> int:
    """Remove a node without references; push kids that lost their last one and return the new top."""
    leave_table(m, node)
    row = Node(m, node)
    symbol, count, start, home = row.symbol, row.kid_count, row.kids, row.home
    entry = Entry(m, home)
    counted = Symbol(m, symbol)
    counted.uses -= 1
    if entry.size >= 0:
        give_list(m, entry.list, entry.size)
    if count == 0:
        counted.leaf = 0
        give_list(m, home - 1, 0)
    for i in range(count):
        kid = m.kids[start + i] >> 8
        kid_row = Node(m, kid)
        if i == row.access:
            remove_entry(m, node, kid)
        else:
            kid_row.watchers -= 1
            if kid_row.watchers == 0:
                Entry(m, kid_row.home).flags &= ~WATCHED
        kid_row.references -= 1
        if kid_row.references == 0:
            m.stack[top] = kid
            top += 1
    if count:
        size = size_for(count)
        m.kids[start] = m.state[FREE_KIDS + size]
        m.state[FREE_KIDS + size] = start
    row.symbol = -1
    row.kids = m.state[FREE_NODE]
    m.state[FREE_NODE] = node
    m.state[LIVE_NODES] -= 1
    return top


@kernel
def remove_pattern(addresses: Longs, handle: int, freed: Ints) -> int:
    """Remove what is entered under `handle`; return how many symbols, listed in `freed`, are no longer used."""
    m = memory_at(addresses)
    at = Filed(m, handle)
    node, following, previous = at.top, at.next, at.previous
    about = Node(m, node)
    if following >= 0:
        Filed(m, following).previous = previous
    if previous >= 0:
        Filed(m, previous).next = following
        following = Entry(m, about.home).accept
    _note_accept(m, node, following)
    at.top = -1
    about.references -= 1
    top = count = 0
    if about.references == 0:
        m.stack[0] = node
        top = 1
    while top:
        top -= 1
        dropped = m.stack[top]
        symbol = Node(m, dropped).symbol
        top = _drop_node(m, dropped, top)
        if Symbol(m, symbol).uses == 0:
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
        leaf = Symbol(m, symbol).leaf
        if leaf <= 0:
            continue
        home = take_list(m, 0) + 1
        for column in range(ENTRY_COLUMNS):
            m.lists[home + column] = lists[leaf + column]
        Symbol(m, symbol).leaf = home
        Node(m, Entry(m, home).node).home = home
        waiting[0] = home
        top = 1
        while top:
            top -= 1
            home = waiting[top]
            length = Entry(m, home).length
            homes = _copy_list(m, home, pointer_to(lists))
            for i in range(length):
                waiting[top] = homes + i * ENTRY_COLUMNS
                top += 1


@part
def _copy_list(m: Memory, home: int, lists: Ints) -> int:
    """Copy the list of the entry at `home` from the old arena, sorted; return where its entries are."""
    entry = Entry(m, home)
    length = entry.length
    if length == 0:
        entry.size = -1
        return 0
    block, homes = entry.list, entry.list + (1 << entry.size)
    size = size_for(length)
    copy = take_list(m, size)
    copies = copy + (1 << size)
    for i in range(length):
        m.lists[copy + i] = lists[block + i]
        for column in range(ENTRY_COLUMNS):
            m.lists[copies + i * ENTRY_COLUMNS + column] = lists[homes + i * ENTRY_COLUMNS + column]
        Node(m, Entry(m, copies + i * ENTRY_COLUMNS).node).home = copies + i * ENTRY_COLUMNS
    entry.list = copy
    entry.size = size
    sort_list(m, copy, length, size)
    return copies
