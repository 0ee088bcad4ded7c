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

from covey.matching.jit import Ints, Longs, ints_at, longs_at, part

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

# The rest of an entry: the node; its own list (block, length, size as a power of two); the first handle whose
# filter's top it is, with flags; one kid other than the access kid; that kid's edge, and in the bits above it the
# node's rank and that kid's symbol % 64.
NODE, LIST, LENGTH, SIZE, ACCEPT, FLAGS, OTHER, OTHER_EDGE = 0, 1, 2, 3, 4, 5, 6, 7
ENTRY_COLUMNS = 8
BLOCK_COLUMNS = ENTRY_COLUMNS + 1
RANK_SHIFT = 8
RANK_BITS = 0xFF
MAX_RANKS = 256
OTHER_SHIFT = 16

# Flags: the edge of the first handle's filter in the low bits, and whether there are further handles, whether nodes
# other than those in its list look at this one, whether it has more than two kids.
FURTHER = 0x80
WATCHED = 0x100
MANY = 0x200

# Columns of `nodes`. HOME is the position in `lists` of the node's entry without its key.
SYMBOL, KIDS, KID_COUNT, REFERENCES, RANK, ACCESS, WATCHERS, HASH, HOME = 0, 1, 2, 3, 4, 5, 6, 7, 8
NODE_COLUMNS = 9

# Columns of `symbols` and of `handles`.
LEAF, USES, SYMBOL_COLUMNS = 0, 1, 2
NEXT, PREVIOUS, TOP, EDGE, HANDLE_COLUMNS = 0, 1, 2, 3, 4

# Cells of `state`; the free blocks of 2^k begin at FREE_LISTS + k and FREE_KIDS + k.
NODE_COUNT, FREE_NODE, LIVE_NODES, LIST_COUNT, KIDS_COUNT, STACK_TOP = 0, 1, 2, 3, 4, 5
TABLE_MASK, LIST_ROOM, KIDS_ROOM, PLACES_ROOM = 6, 7, 8, 9
FREE_LISTS, FREE_KIDS, STATE_CELLS = 16, 48, 56

# Columns of a laid out target's elements, in document order: what it is (parent, whether certainly the parent's child,
# level, symbol of its label or -1, last element below it, deepest level below it), the notes of a run, and sets of 64
# bits in two cells each, a symbol being the bit symbol % 64: labels above it, labels and tests below it (its own
# tests too), labels of its certain children. The wildcard's bit, 0, is set wherever there is any such element.
PARENT, EXACT, LEVEL, LABEL, LAST, DEEPEST = 0, 1, 2, 3, 4, 5
ABOVE_MARK, ABOVE_NEXT, ABOVE_LIST, PARENT_MARK, REACH = 6, 7, 8, 9, 10
LABELS_ABOVE, LABELS_BELOW, LABELS_OF_CHILDREN = 12, 14, 16
ELEMENT_COLUMNS = 20

# Columns of `pairs`: a symbol, an element where it occurs, the next pair with the same symbol.
P_SYMBOL, P_ELEMENT, P_NEXT, PAIR_COLUMNS = 0, 1, 2, 3

# Columns of `chains`, one row a symbol: for which visit the chain is, and with which element it begins.
CHAIN_FOR, CHAIN_HEAD, CHAIN_COLUMNS = 0, 1, 2

# Columns of `work` (a list to look through, and the places of its node), of `seen` (nodes at which others look, with
# their places) and of `later` (nodes put off, in a linked list for each rank that begins in `heads`).
W_LIST, W_LENGTH, W_SIZE, W_BEGIN, W_END, WORK_COLUMNS = 0, 1, 2, 3, 4, 8
S_NODE, S_BEGIN, S_END, SEEN_COLUMNS = 0, 1, 2, 4
L_HOME, L_BEGIN, L_END, L_NEXT, LATER_COLUMNS = 0, 1, 2, 3, 4


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


@part
def memory_at(addresses: Longs) -> Memory:
    """Return the pointers to the arrays at these addresses."""
    return Memory(
        ints_at(addresses[0]),
        ints_at(addresses[1]),
        longs_at(addresses[2]),
        ints_at(addresses[3]),
        ints_at(addresses[4]),
        ints_at(addresses[5]),
        longs_at(addresses[6]),
        longs_at(addresses[7]),
        ints_at(addresses[8]),
        ints_at(addresses[9]),
        ints_at(addresses[10]),
        ints_at(addresses[11]),
        ints_at(addresses[12]),
        ints_at(addresses[13]),
        ints_at(addresses[14]),
        ints_at(addresses[15]),
        ints_at(addresses[16]),
        ints_at(addresses[17]),
        ints_at(addresses[18]),
    )
