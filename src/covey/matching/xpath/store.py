"""The arrays of the XPath index: who owns them and lets them grow.

Kernels see the arrays through their addresses (memory.py), so every array that is replaced is noted at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from covey.matching.jit import Ints, Longs
from covey.matching.records import addresses_of, note_addresses
from covey.matching.xpath import graph
from covey.matching.xpath.memory import (
    BLOCK_COLUMNS,
    FREE_LISTS,
    FREE_NODE,
    KIDS_ROOM,
    LIST_ROOM,
    LIVE_NODES,
    MAX_RANKS,
    NODE_COUNT,
    PLACES_ROOM,
    STATE_CELLS,
    TABLE_MASK,
    Chain,
    Element,
    Filed,
    Later,
    Memory,
    Node,
    Pair,
    Seen,
    Symbol,
    Work,
)

# More than a pattern has nodes and tests.
MAX_ROWS = 1024

# The arrays that hold filters; the others are only written and read by a run.
LASTING = ("nodes", "lists", "kids", "table", "symbols", "handles")


class Store:
    """The arrays by name, flat, each as memory.py describes it, with as many rows as are needed."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.addresses: Longs = np.zeros(addresses_of(Memory), np.int64)
        self.state: Longs = np.zeros(STATE_CELLS, np.int64)
        self.state[FREE_NODE] = -1
        self.state[FREE_LISTS:] = -1
        self._set("state", self.state)
        self._set("stack", np.zeros(MAX_ROWS, np.int64))
        self._set("kids", np.zeros(64, np.int64))
        for name, cells in _FIRST_CELLS.items():
            self._set(name, np.full(cells, _FILL.get(name, 0), np.int32))
        self.freed: Ints = np.zeros(MAX_ROWS, np.int32)
        self.state[TABLE_MASK] = len(self.arrays["table"]) - 1

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take the arrays over, which are in other places in this process."""
        vars(self).update(state)
        self.addresses = np.zeros_like(self.addresses)
        note_addresses(self.addresses, Memory, self.arrays)

    @property
    def node_count(self) -> int:
        """The number of nodes that the patterns share."""
        return int(self.state[LIVE_NODES])

    @property
    def node_rows(self) -> int:
        """The number of rows of `nodes` that were ever used."""
        return int(self.state[NODE_COUNT])

    @property
    def memory_bytes(self) -> int:
        """The bytes of the arrays that hold filters."""
        return sum(self.arrays[name].nbytes for name in LASTING)

    def make_room(self, rows: int, handle: int, symbols: int) -> None:
        """Let everything grow that adding a pattern of so many rows needs, but for the arenas."""
        self._grow("nodes", Node.length_in() * (self.node_rows + rows))
        self._grow("handles", Filed.length_in() * (handle + 1))
        self._grow("symbols", Symbol.length_in() * symbols)
        if 2 * (self.node_count + rows) > len(self.arrays["table"]):
            old = self.arrays["table"]
            self._set("table", np.full(2 * len(old), -1, np.int32))
            self.state[TABLE_MASK] = 2 * len(old) - 1
            graph.rebuild_table(self.addresses, old)

    def grow_arenas(self) -> None:
        """Double the arenas: one node never takes more than is there already."""
        self._grow("lists", 2 * len(self.arrays["lists"]))
        self._grow("kids", 2 * len(self.arrays["kids"]))

    def make_run_room(self, elements: int, pairs: int, filters: int, symbols: int) -> None:
        """Let everything grow that a run over so many elements and pairs writes."""
        nodes = self.node_rows + 1
        if nodes > len(self.arrays["slot"]):
            for name, columns in _RUN_COLUMNS.items():
                self._grow(name, columns * nodes)
        self._grow("elements", Element.length_in() * elements)
        self._grow("pairs", Pair.length_in() * pairs)
        self._grow("places", elements + pairs)
        self._grow("chains", Chain.length_in() * symbols)
        self._grow("found", filters + 1)

    def grow_places(self) -> None:
        """Double the room for places."""
        self._grow("places", 2 * len(self.arrays["places"]))

    def lay_out(self, symbols: int) -> None:
        """Copy the lists so that each lies next to those of its entries."""
        old = self.arrays["lists"]
        self._set("lists", np.zeros(len(old), np.int32))
        graph.lay_out(self.addresses, old, symbols, np.empty(self.node_rows + 1, np.int64))

    def _grow(self, name: str, cells: int) -> None:
        """Let an array have at least so many cells; when it grows, by a half at least."""
        old = self.arrays[name]
        if cells > len(old):
            new = np.full(max(cells, len(old) * 3 // 2), _FILL.get(name, 0), old.dtype)
            new[: len(old)] = old
            self._set(name, new)

    def _set(self, name: str, array: NDArray[Any]) -> None:
        self.arrays[name] = array
        note_addresses(self.addresses, Memory, {name: array})
        if name in _ROOM:
            self.state[_ROOM[name]] = len(array)


_RUN_COLUMNS = {
    "slot": 1,
    "order": 1,
    "seen": Seen.length_in(),
    "work": Work.length_in(),
    "later": Later.length_in(),
}
_ROOM = {"lists": LIST_ROOM, "kids": KIDS_ROOM, "places": PLACES_ROOM}
_FILL = {"table": -1, "handles": -1, "chains": -1, "heads": -1}
_FIRST_CELLS = {
    "nodes": 64 * Node.length_in(),
    "lists": 64 * BLOCK_COLUMNS,
    "table": 256,
    "symbols": 64 * Symbol.length_in(),
    "handles": 64 * Filed.length_in(),
    "elements": 256 * Element.length_in(),
    "pairs": 512 * Pair.length_in(),
    "chains": 64 * Chain.length_in(),
    "heads": MAX_RANKS,
    "places": 4096,
    "found": 64,
    **{name: 64 * columns for name, columns in _RUN_COLUMNS.items()},
}
