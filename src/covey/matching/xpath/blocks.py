"""Parts that keep the arenas and the hash table: blocks of 2^k, entries in lists, nodes by content."""

from __future__ import annotations

import numpy as np

from covey.matching.jit import part
from covey.matching.xpath.memory import (
    BLOCK_COLUMNS,
    ENTRY_COLUMNS,
    FREE_LISTS,
    LIST_COUNT,
    TABLE_MASK,
    Entry,
    Memory,
    Node,
)


@part
def size_for(count: int) -> int:
    """Return the least k with 2^k at least `count`."""
    size = 0
    while (1 << size) < count:
        size += 1
    return size


@part
def hash_of(m: Memory, symbol: int, first: int, last: int) -> int:
    """Return a hash of the symbol and the kids on the stack, of 31 bits."""
    mixed = np.uint64(symbol + 1) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(first, last):
        mixed = (mixed ^ np.uint64(m.stack[i])) * np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(32)
    mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(0x7FFFFFFF))  # type: ignore[return-value]


@part
def find_node(m: Memory, symbol: int, content: int, first: int, last: int) -> int:
    """Return the node with this symbol, hash and kids on the stack, or -1."""
    mask = m.state[TABLE_MASK]
    slot = content & mask
    while m.table[slot] >= 0:
        node = m.table[slot]
        row = Node(m, node)
        if row.hash == content and row.symbol == symbol and row.kid_count == last - first:
            start = row.kids
            same = True
            for i in range(last - first):
                same &= m.kids[start + i] == m.stack[first + i]
            if same:
                return node
        slot = (slot + 1) & mask
    return -1


@part
def enter_table(m: Memory, node: int) -> None:
    """Put a node into the hash table, which has room."""
    mask = m.state[TABLE_MASK]
    slot = Node(m, node).hash & mask
    while m.table[slot] >= 0:
        slot = (slot + 1) & mask
    m.table[slot] = node


@part
def leave_table(m: Memory, node: int) -> None:
    """Take a node out of the hash table, moving up what was displaced by it."""
    mask = m.state[TABLE_MASK]
    slot = Node(m, node).hash & mask
    while m.table[slot] != node:
        slot = (slot + 1) & mask
    hole = slot
    while True:
        slot = (slot + 1) & mask
        if m.table[slot] < 0:
            break
        home = Node(m, m.table[slot]).hash & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            m.table[hole] = m.table[slot]
            hole = slot
    m.table[hole] = -1


@part
def take_list(m: Memory, size: int) -> int:
    """Return a block for 2^size entries; there is room."""
    block = m.state[FREE_LISTS + size]
    if block >= 0:
        m.state[FREE_LISTS + size] = m.lists[block]
        return block
    block = m.state[LIST_COUNT]
    m.state[LIST_COUNT] = block + (BLOCK_COLUMNS << size)
    return block


@part
def give_list(m: Memory, block: int, size: int) -> None:
    """Take back a block for 2^size entries."""
    m.lists[block] = m.state[FREE_LISTS + size]
    m.state[FREE_LISTS + size] = block


@part
def _move_entry(m: Memory, key: int, home: int, new_key: int, new_home: int) -> None:
    m.lists[new_key] = m.lists[key]
    for column in range(ENTRY_COLUMNS):
        m.lists[new_home + column] = m.lists[home + column]
    Node(m, Entry(m, new_home).node).home = new_home


@part
def append_entry(m: Memory, kid: int, key: int) -> int:
    """Make room for one more entry in the list of `kid`, write its key and return its home."""
    at = Node(m, kid).home
    entry = Entry(m, at)
    block, length, size = entry.list, entry.length, entry.size
    if size < 0 or length == 1 << size:
        bigger = take_list(m, size + 1)
        homes, new_homes = block + (1 << max(size, 0)), bigger + (1 << (size + 1))
        for i in range(length):
            _move_entry(m, block + i, homes + i * ENTRY_COLUMNS, bigger + i, new_homes + i * ENTRY_COLUMNS)
        if size >= 0:
            give_list(m, block, size)
        block, size = bigger, size + 1
        entry.list = block
        entry.size = size
    m.lists[block + length] = key
    entry.length = length + 1
    return block + (1 << size) + length * ENTRY_COLUMNS


@part
def remove_entry(m: Memory, node: int, kid: int) -> None:
    """Take the entry of `node` out of the list of `kid`; the last entry takes its place."""
    at = Node(m, kid).home
    entry = Entry(m, at)
    block, last = entry.list, entry.length - 1
    homes = block + (1 << entry.size)
    home = Node(m, node).home
    position = (home - homes) // ENTRY_COLUMNS
    if position != last:
        _move_entry(m, block + last, homes + last * ENTRY_COLUMNS, block + position, home)
    entry.length = last


@part
def sort_list(m: Memory, block: int, length: int, size: int) -> None:
    """Sort the entries of a list by key, in place (Shell's way: most are short, none may take long)."""
    homes = block + (1 << size)
    gap = 1
    while gap < length // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, length):
            j = i
            while j >= gap and m.lists[block + j - gap] > m.lists[block + j]:
                _swap(m, block + j - gap, block + j)
                one, two = homes + (j - gap) * ENTRY_COLUMNS, homes + j * ENTRY_COLUMNS
                for column in range(ENTRY_COLUMNS):
                    _swap(m, one + column, two + column)
                Node(m, Entry(m, one).node).home = one
                Node(m, Entry(m, two).node).home = two
                j -= gap
        gap //= 3


@part
def _swap(m: Memory, one: int, two: int) -> None:
    kept = m.lists[one]
    m.lists[one] = m.lists[two]
    m.lists[two] = kept
