"""The arrays of the XPath index as kernels see them, and what their columns mean.

All patterns are one directed acyclic graph: a node is a symbol (an element's name, the wildcard, or an attribute test)
with its kids, each hanging by an edge, and equal nodes are stored once, whichever patterns they come from. The edge by
which a node hangs belongs to the link, not to the node, so that /a/b and //b share b. A test is a kid without kids of
its own that hangs by the edge SELF.

Of its kids a node waits for one, its access kid (graph.py says which), and its entry stands in that kid's list. So a
run meets a node only after something that it needs was found, and has all it needs to know of it in that place.

    lists     arena of the lists: a block of 2^k entries is 2^k keys, then 2^k rows of what else an entry says
    kids      arena of the kids of every node: node << 8 | edge, in blocks of 2^k
    nodes     one row a node: what only changes of the graph need
    table     open hash table of node numbers, by content
    symbols   one row a symbol: where the entry of its node without kids stands (0: nowhere), and how many nodes have it
    handles   one row a handle: the filter's top node and edge, in a doubly linked list from the node
    state     counters and the heads of the lists of free nodes and blocks
    stack     nodes on the way into the graph or out of it
    the rest  is written and read by a run alone (run.py)

Kernels take one `Memory` of plain pointers, made from the array of addresses that the store keeps up to date. They know
no length: the store has made enough room before.
"""

from __future__ import annotations

from typing import NamedTuple

from covey.matching.jit import Ints, Longs
from covey.matching.records import Int, Long, Record, pointers_to

CELL = 4  # bytes

# Edges: 0 is a child, 1 to 100 that many levels below at least, SELF the element itself.
SELF = 127
EDGE_BITS = 0x7F

# The key of an entry: edge of the access kid << 24 | MORE if there are kids other than the access kid | symbol.
# Sorted by key, entries that are treated alike follow each other.
EDGE_SHIFT = 24
MORE = 1 << 23
SYMBOL_BITS = MORE - 1
MAX_SYMBOLS = SYMBOL_BITS
WILDCARD_SYMBOL = 0

# What an entry says of its node in the bits of `other_edge` above the edge: the node's rank and the other kid's symbol
# % 64.
RANK_SHIFT = 8
RANK_BITS = 0xFF
MAX_RANKS = 256
OTHER_SHIFT = 16

# Flags: the edge of the first handle's filter in the low bits, and whether there are further handles, whether nodes
# other than those in its list look at this one, whether it has more than two kids.
FURTHER = 0x80
WATCHED = 0x100
MANY = 0x200

# Cells of `state`; the free blocks of 2^k begin at FREE_LISTS + k and FREE_KIDS + k.
NODE_COUNT, FREE_NODE, LIVE_NODES, LIST_COUNT, KIDS_COUNT, STACK_TOP = 0, 1, 2, 3, 4, 5
TABLE_MASK, LIST_ROOM, KIDS_ROOM, PLACES_ROOM = 6, 7, 8, 9
FREE_LISTS, FREE_KIDS, STATE_CELLS = 16, 48, 56


class Entry(Record, array="lists", unit=CELL):
    """An entry of a list, without its key: the node, its own list (block, length, size as a power of two), the first
    handle whose filter's top it is, with flags, and one kid other than the access kid, with its edge and more bits."""

    node: Int
    list: Int
    length: Int
    size: Int
    accept: Int
    flags: Int
    other: Int
    other_edge: Int


ENTRY_COLUMNS = Entry.length_in()
BLOCK_COLUMNS = ENTRY_COLUMNS + 1


class Node(Record, array="nodes"):
    """A node of the graph; `home` is the position in `lists` of its entry without its key."""

    symbol: Int
    kids: Int
    kid_count: Int
    references: Int
    rank: Int
    access: Int
    watchers: Int
    hash: Int
    home: Int


NODE_COLUMNS = Node.length_in()


class Symbol(Record, array="symbols"):
    """A symbol: where the entry of its node without kids stands, 0 for nowhere, and how many nodes have it."""

    leaf: Int
    uses: Int


class Filed(Record, array="handles"):
    """A handle: its neighbours in the list of those with the same node on top, the node, and by which edge."""

    next: Int
    previous: Int
    top: Int
    edge: Int


class Element(Record, array="elements"):
    """An element of a target that is laid out, in document order.

    What it is (parent, whether certainly the parent's child, level, symbol of its label or -1, last element below it,
    deepest level below it), the notes of a run, and sets of 64 bits, a symbol being the bit symbol % 64: labels above
    it, labels and tests below it (its own tests too), labels of its certain children. The wildcard's bit, 0, is set
    wherever there is any such element.
    """

    parent: Int
    exact: Int
    level: Int
    label: Int
    last: Int
    deepest: Int
    above_mark: Int
    above_next: Int
    above_list: Int
    parent_mark: Int
    reach: Int
    labels_above: Long
    labels_below: Long
    labels_of_children: Long


class TargetRow(Record):
    """An element of a target as a run is given it: its parent, whether it certainly is the parent's child, its level
    and its symbol."""

    parent: Int
    exact: Int
    level: Int
    label: Int


class TargetTest(Record):
    """A test that holds in a target: its symbol, and the element."""

    symbol: Int
    element: Int


class PatternRow(Record):
    """A node of a pattern that is entered, its kids before it: symbol, edge, and how many kids it has."""

    symbol: Int
    edge: Int
    kid_count: Int


class Pair(Record, array="pairs"):
    """A symbol, an element where it occurs, the next pair with the same symbol."""

    symbol: Int
    element: Int
    next: Int


class Chain(Record, array="chains"):
    """Of a symbol: for which visit its chain is, and with which element it begins."""

    visit: Int
    head: Int


class Work(Record, array="work"):
    """A list to look through, and the places of its node."""

    list: Int
    length: Int
    size: Int
    begin: Int
    end: Int


class Seen(Record, array="seen"):
    """A node at which others look, with its places."""

    node: Int
    begin: Int
    end: Int


class Later(Record, array="later"):
    """A node that is put off, in a linked list for each rank that begins in `heads`."""

    home: Int
    begin: Int
    end: Int
    next: Int


class Memory(NamedTuple):
    """Pointers to the arrays; see the module's text."""

    nodes: Ints
    lists: Ints
    kids: Longs
    table: Ints
    symbols: Ints
    handles: Ints
    state: Longs
    stack: Longs
    elements: Ints
    pairs: Ints
    chains: Ints
    slot: Ints
    seen: Ints
    work: Ints
    later: Ints
    heads: Ints
    order: Ints
    places: Ints
    found: Ints


memory_at = pointers_to(Memory)
