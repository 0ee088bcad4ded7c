"""The index of XPath filters: one shared graph, one pass over a document for all of them.

    match        run.py over the document
    covering     the same run over the pattern in the document's stead: what maps into a pattern covers it
    covered      scans.py, the pattern mapped into the graph
    overlapping  scans.py, a look at every root element

See layout.py for the arrays and graph.py for how they change. This module owns the arrays, lets them grow and
translates between Python and them. After many changes the lists are laid out anew before the next run, so that a run
finds together what it visits together.
"""

from __future__ import annotations

import numpy as np

from covey.core.xpath.containment import pattern_covers
from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter, as_document
from covey.core.xpath.pattern import WILDCARD, Node
from covey.matching.xpath import graph, scans, target
from covey.matching.xpath.layout import (
    BLOCK_COLUMNS,
    COUNTS,
    ELEMENT_COLUMNS,
    FREE_LISTS,
    FREE_NODE,
    LATER_COLUMNS,
    LIVE_NODES,
    MAX_RANKS,
    NODE_COLUMNS,
    NODE_COUNT,
    SEEN_COLUMNS,
    SELF,
    STATE_CELLS,
    WILDCARD_SYMBOL,
    WORK_COLUMNS,
    Ints,
    Longs,
    grown,
)
from covey.matching.xpath.symbols import SymbolTable

# More rows than a pattern has nodes and tests.
MAX_ROWS = 1024

# The lists are laid out anew when a quarter of the nodes changed since, and there are this many at least.
MIN_LAID_OUT = 1024

# A pattern of more nodes and tests does not fit into a word of bits, and is compared filter by filter.
MAX_SCANNED = 63


class XPathIndex:
    """Filters of the xpath family by handle; the answers are those of asking every filter."""

    def __init__(self) -> None:
        self._symbols = SymbolTable()
        self._filters: dict[int, XPathFilter] = {}
        self._nodes: Ints = np.zeros((64, NODE_COLUMNS), np.int32)
        self._lists: Ints = np.zeros(64 * BLOCK_COLUMNS, np.int32)
        self._kids: Longs = np.zeros(64, np.int64)
        self._table: Ints = np.full(256, -1, np.int32)
        self._symbol_rows: Ints = np.full((64, 2), (-1, 0), np.int32)
        self._handles: Ints = np.full((64, 4), -1, np.int32)
        self._signatures: Longs = np.zeros(64, np.int64)
        self._state: Longs = np.zeros(STATE_CELLS, np.int64)
        self._state[FREE_NODE] = -1
        self._state[FREE_LISTS:] = -1
        self._stack: Longs = np.zeros(MAX_ROWS, np.int64)
        self._freed: Ints = np.zeros(MAX_ROWS, np.int32)
        self._changes = 0
        self._allocate_scratch()

    def __len__(self) -> int:
        """Return the number of handles."""
        return len(self._filters)

    @property
    def node_count(self) -> int:
        """The number of nodes that the patterns share."""
        return int(self._state[LIVE_NODES])

    @property
    def memory_bytes(self) -> int:
        """The bytes that the filters take in the index: its arrays without what only a run needs."""
        arrays = (self._nodes, self._lists, self._kids, self._table, self._symbol_rows, self._handles, self._signatures)
        return sum(array.nbytes for array in arrays)

    def add(self, handle: int, filter: XPathFilter) -> None:
        """Enter the filter under a handle that is not in use."""
        assert handle >= 0 and handle not in self._filters, "the handle is in use"
        cells: list[int] = []
        signature = self._write_rows(filter.pattern, cells)
        rows = np.array(cells, np.int32).reshape(-1, 3)
        self._make_room(len(rows), handle)
        done = 0
        while True:
            done = graph.add_pattern(
                rows,
                done,
                handle,
                self._nodes,
                self._lists,
                self._kids,
                self._table,
                self._symbol_rows,
                self._handles,
                self._state,
                self._stack,
            )
            if done == len(rows):
                break
            self._grow_arenas()
        self._signatures[handle] = signature
        self._filters[handle] = filter
        self._changes += len(rows)

    def remove(self, handle: int, filter: XPathFilter) -> None:
        """Remove what was entered under the handle."""
        del self._filters[handle]
        count = graph.remove_pattern(
            handle,
            self._nodes,
            self._lists,
            self._kids,
            self._table,
            self._symbol_rows,
            self._handles,
            self._state,
            self._stack,
            self._freed,
        )
        for symbol in self._freed[:count].tolist():
            self._symbols.release(symbol)

    def match(self, content: object) -> Ints:
        """Return the handles whose filter matches the document, or XML text or bytes; none for other content.

        Raises EventError for text that is not XML.
        """
        document = as_document(content)
        if document is None or not self._filters:
            return np.empty(0, np.int32)
        rows = np.empty((len(document), 4), np.int32)
        rows[:, 0] = document.parent
        rows[:, 1] = 1
        rows[:, 2] = document.depth
        rows[:, 3] = np.array(self._symbols.find_all(document.names), np.int32)[document.name]
        return self._run(rows, self._document_tests(document))

    def covering(self, filter: XPathFilter) -> Ints:
        """Return the handles whose filter covers the given one."""
        if not self._filters:
            return np.empty(0, np.int32)
        cells: list[int] = []
        tests: list[int] = []
        self._lay_pattern(filter.pattern, -1, 0, cells, tests)
        return self._run(np.array(cells, np.int32).reshape(-1, 4), tests)

    def covered(self, filter: XPathFilter) -> Ints:
        """Return the handles whose filter the given one covers."""
        rows: list[tuple[int, int, int]] = []
        asked = np.zeros(len(self._symbols), np.int64)
        signature = self._write_bits(filter.pattern, rows, asked)
        if signature < 0 or not self._filters:
            return np.empty(0, np.int32)
        if len(rows) > MAX_SCANNED:
            found = [h for h, other in self._filters.items() if pattern_covers(filter.pattern, other.pattern)]
            return np.array(found, np.int32)
        count = int(self._state[NODE_COUNT])
        answer: Ints = np.empty(len(self._filters), np.int32)
        total = scans.find_covered(
            np.array(rows, np.int64),
            signature,
            asked,
            self._nodes,
            self._kids,
            self._handles,
            self._signatures,
            np.empty(count, np.int64),
            np.empty((count, len(rows)), np.uint8),
            np.zeros(count, np.uint8),
            self._stack,
            answer,
        )
        return answer[:total].copy()

    def overlapping(self, filter: XPathFilter) -> Ints:
        """Return the handles whose filter overlaps the given one."""
        pattern = filter.pattern
        barred = np.zeros(len(self._symbols), np.uint8)
        for test in pattern.tests:
            barred[self._symbols.contradicting(test)] = 1
        answer: Ints = np.empty(len(self._filters), np.int32)
        symbol = self._symbols.find(pattern.label)
        total = scans.find_overlapping(
            pattern.edge == 0, symbol, barred, self._nodes, self._kids, self._handles, answer
        )
        return answer[:total].copy()

    def _write_rows(self, node: Node, cells: list[int]) -> int:
        """Append the pattern in postorder as `add_pattern` wants it; return the signature of its symbols' names."""
        intern = self._symbols.intern
        signature = 0
        for test in node.tests:
            cells += (intern(test), SELF, 0)
        for child in node.children:
            signature |= self._write_rows(child, cells)
        symbol = intern(node.label)
        cells += (symbol, node.edge, len(node.tests) + len(node.children))
        return signature | _bit(symbol)

    def _write_bits(self, node: Node, rows: list[tuple[int, int, int]], asked: Longs) -> int:
        """Append the pattern in postorder as `find_covered` wants it; return its signature, -1 if nothing can fit."""
        kids = 0
        signature = 0
        for test in node.tests:
            symbols = self._symbols.meeting(test)
            if not symbols:
                return -1
            if len(rows) <= MAX_SCANNED:
                asked[symbols] |= 1 << len(rows)
                kids |= 1 << len(rows)
            rows.append((-1, SELF, 0))
        for child in node.children:
            below = self._write_bits(child, rows, asked)
            if below < 0:
                return -1
            signature |= below
            kids |= 1 << (len(rows) - 1)
        symbol = self._symbols.find(node.label)
        if symbol < 0:
            return -1
        rows.append((symbol, node.edge, kids))
        return signature | _bit(symbol)

    def _document_tests(self, document: Document) -> list[int]:
        """Return what attributes meet which tests, as (symbol, element) one after the other."""
        symbols = self._symbols
        if not symbols.tested or not document.owner:
            return []
        met: dict[int, list[int]] = {}
        for number, (name, value) in enumerate(document.attributes):
            if name in symbols.tested:
                met[number] = symbols.met_by(name, value)
        if not met:
            return []
        cells: list[int] = []
        for element, number in zip(document.owner, document.attribute, strict=True):
            for symbol in met.get(number, ()):
                cells += (symbol, element)
        return cells

    def _lay_pattern(self, node: Node, above: int, level: int, cells: list[int], tests: list[int]) -> None:
        """Append the pattern as a target; a wildcard of it is an element whose name is not known."""
        edge, label, asked, children = node
        here = len(cells) // 4
        level += edge or 1
        cells += (above, edge == 0, level, -1 if label == WILDCARD else self._symbols.find(label))
        for test in asked:
            for symbol in self._symbols.met_by(test[0], test[1] if len(test) == 2 else None):
                tests += (symbol, here)
        for child in children:
            self._lay_pattern(child, here, level, cells, tests)

    def _run(self, rows: Ints, tests: list[int]) -> Ints:
        """Run all patterns over the target and return the handles found."""
        if self._changes * 4 > self.node_count > MIN_LAID_OUT:
            self._lay_out()
        pairs = len(rows) + len(tests) // 2
        self._make_scratch(len(rows), pairs)
        met = np.array(tests, np.int32).reshape(-1, 2)
        while True:
            total = target.run_target(
                rows,
                met,
                self._elements,
                self._pairs,
                self._nodes,
                self._lists,
                self._kids,
                self._symbol_rows,
                self._handles,
                self._slot,
                self._seen,
                self._work,
                self._later,
                self._heads,
                self._places,
                self._chains,
                self._order,
                self._found,
                self._counts,
            )
            if total >= 0:
                return self._found[:total].copy()
            self._places = np.zeros(2 * len(self._places), np.int32)

    def _make_room(self, rows: int, handle: int) -> None:
        """Let everything grow that `add_pattern` does not ask for by itself."""
        count = int(self._state[NODE_COUNT]) + rows
        if count > len(self._nodes):
            self._nodes = grown(self._nodes, count, 0)
        if 2 * (self.node_count + rows) > len(self._table):
            old, self._table = self._table, np.full(2 * len(self._table), -1, np.int32)
            graph.rebuild_table(self._nodes, old, self._table)
        if len(self._symbols) > len(self._symbol_rows):
            known = len(self._symbol_rows)
            self._symbol_rows = grown(self._symbol_rows, len(self._symbols), 0)
            self._symbol_rows[known:, 0] = -1
        if handle >= len(self._handles):
            self._handles = grown(self._handles, handle + 1, -1)
            self._signatures = grown(self._signatures, handle + 1, 0)

    def _grow_arenas(self) -> None:
        # What one node may take is at most as much as is there already, so doubling is always enough.
        self._lists = grown(self._lists, 2 * len(self._lists), 0)
        self._kids = grown(self._kids, 2 * len(self._kids), 0)

    def _lay_out(self) -> None:
        """Copy the lists so that each lies next to those of its entries."""
        new: Ints = np.zeros(len(self._lists), np.int32)
        waiting: Longs = np.empty(int(self._state[NODE_COUNT]) + 1, np.int64)
        graph.lay_out(self._nodes, self._lists, self._symbol_rows, self._state, new, waiting)
        self._lists = new
        self._changes = 0

    def _allocate_scratch(self) -> None:
        self._elements: Ints = np.zeros((256, ELEMENT_COLUMNS), np.int32)
        self._pairs: Ints = np.zeros((512, 3), np.int32)
        self._slot: Ints = np.zeros(64, np.int32)
        self._seen: Ints = np.zeros((64, SEEN_COLUMNS), np.int32)
        self._work: Ints = np.zeros((64, WORK_COLUMNS), np.int32)
        self._later: Ints = np.zeros((64, LATER_COLUMNS), np.int32)
        self._heads: Ints = np.full(MAX_RANKS, -1, np.int32)
        self._counts: Longs = np.zeros(COUNTS, np.int64)
        self._order: Ints = np.zeros(64, np.int32)
        self._places: Ints = np.zeros(4096, np.int32)
        self._chains: Ints = np.full((64, 2), -1, np.int32)
        self._found: Ints = np.zeros(64, np.int32)

    def _make_scratch(self, elements: int, pairs: int) -> None:
        """Let grow what a run needs for itself."""
        if elements > len(self._elements):
            self._elements = grown(self._elements, elements, 0)
        if pairs > len(self._pairs):
            self._pairs = grown(self._pairs, pairs, 0)
        if elements + pairs > len(self._places):
            self._places = grown(self._places, elements + pairs, 0)
        nodes = int(self._state[NODE_COUNT]) + 2
        if nodes > len(self._slot):
            self._slot = grown(self._slot, nodes, 0)
            self._seen = grown(self._seen, nodes, 0)
            self._work = grown(self._work, nodes, 0)
            self._later = grown(self._later, nodes, 0)
            self._order = grown(self._order, nodes, 0)
        if len(self._symbol_rows) > len(self._chains):
            self._chains = grown(self._chains, len(self._symbol_rows), -1)
        if len(self._filters) + 1 > len(self._found):
            self._found = grown(self._found, len(self._filters) + 1, 0)


def _bit(symbol: int) -> int:
    """Return the bit that stands for a label in a signature; the wildcard has none."""
    return 0 if symbol == WILDCARD_SYMBOL else 1 << (symbol % 63)
