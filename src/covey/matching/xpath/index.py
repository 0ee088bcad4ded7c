"""The index of XPath filters: one shared graph, one pass over a document for all of them.

    match        run.py over the document
    covering     the same run over the pattern in the document's stead: what maps into a pattern covers it
    covered      scans.py, the pattern mapped into the graph
    overlapping  scans.py, a look at every root element

This module translates between Python and the arrays (memory.py, store.py). After many changes the lists are laid out
anew before the next run, so that a run finds together what it visits together.
"""

from __future__ import annotations

import numpy as np

from covey.core.xpath.containment import fits, pattern_covers
from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter, as_document
from covey.core.xpath.pattern import WILDCARD, Node
from covey.matching.jit import Ints, Longs
from covey.matching.xpath import graph, scans
from covey.matching.xpath.memory import SELF, WILDCARD_SYMBOL, Filed, TargetRow
from covey.matching.xpath.run import run_target
from covey.matching.xpath.store import Store
from covey.matching.xpath.symbols import SymbolTable

# The lists are laid out anew when a quarter of the nodes changed since, and there are this many at least.
MIN_LAID_OUT = 1024

# A pattern of more nodes and tests does not fit into a word of bits, and is compared filter by filter.
MAX_SCANNED = 63

# A run that needs more room for places than this, over a huge document in which everything fits everywhere, is given
# up and every filter asked.
MAX_PLACES = 1 << 26

_NOTHING: Ints = np.zeros(0, np.int32)


class XPathIndex:
    """Filters of the xpath family by handle; the answers are those of asking every filter."""

    def __init__(self) -> None:
        self._symbols = SymbolTable()
        self._store = Store()
        self._filters: dict[int, XPathFilter] = {}
        self._signatures: Longs = np.zeros(64, np.int64)
        self._changes = 0

    def __len__(self) -> int:
        """Return the number of handles."""
        return len(self._filters)

    @property
    def node_count(self) -> int:
        """The number of nodes that the patterns share."""
        return self._store.node_count

    @property
    def memory_bytes(self) -> int:
        """The bytes that the filters take in the index: its arrays without what only a run needs."""
        return self._store.memory_bytes + self._signatures.nbytes

    def add(self, handle: int, filter: XPathFilter) -> None:
        """Enter the filter under a handle that is not in use."""
        assert handle >= 0
        assert handle not in self._filters, "the handle is in use"
        cells: list[int] = []
        signature = self._write_rows(filter.pattern, cells)
        count = len(cells) // 3
        rows = np.array(cells, np.int32)
        store = self._store
        store.make_room(count, handle, len(self._symbols))
        done = graph.add_pattern(store.addresses, rows, count, 0, handle)
        while done < count:
            store.grow_arenas()
            done = graph.add_pattern(store.addresses, rows, count, done, handle)
        if handle >= len(self._signatures):
            self._signatures = np.resize(self._signatures, max(handle + 1, len(self._signatures) * 3 // 2))
        self._signatures[handle] = signature
        self._filters[handle] = filter
        self._changes += count

    def remove(self, handle: int, filter: XPathFilter) -> None:
        """Remove what was entered under the handle."""
        del self._filters[handle]
        freed = self._store.freed
        count = graph.remove_pattern(self._store.addresses, handle, freed)
        for symbol in freed[:count].tolist():
            self._symbols.release(symbol)

    def match(self, content: object) -> Ints:
        """Return the handles whose filter matches the document, or XML text or bytes; none for other content.

        Raises EventError for text that is not XML.
        """
        document = as_document(content)
        if document is None or not self._filters:
            return _NOTHING
        rows = np.empty((len(document), TargetRow.length_in()), np.int32)
        at = TargetRow.PLACES
        rows[:, at.parent] = document.parent
        rows[:, at.exact] = 1
        rows[:, at.level] = document.depth
        rows[:, at.label] = np.array(self._symbols.find_all(document.names), np.int32)[document.name]
        found = self._run(rows.reshape(-1), len(document), self._document_tests(document))
        if found is None:
            asked = [h for h, filter in self._filters.items() if fits(filter.pattern, document.target)]
            found = np.array(asked, np.int32)
        return found

    def covering(self, filter: XPathFilter) -> Ints:
        """Return the handles whose filter covers the given one."""
        if not self._filters:
            return _NOTHING
        cells: list[int] = []
        tests: list[int] = []
        self._lay_pattern(filter.pattern, -1, 0, cells, tests)
        found = self._run(np.array(cells, np.int32), len(cells) // TargetRow.length_in(), tests)
        assert found is not None, "a pattern has few places"
        return found

    def covered(self, filter: XPathFilter) -> Ints:
        """Return the handles whose filter the given one covers."""
        rows: list[tuple[int, int, int]] = []
        met = np.zeros(len(self._symbols), np.int64)
        signature = self._write_bits(filter.pattern, rows, met)
        if signature < 0 or not self._filters:
            return _NOTHING
        if len(rows) > MAX_SCANNED:
            found = [h for h, other in self._filters.items() if pattern_covers(filter.pattern, other.pattern)]
            return np.array(found, np.int32)
        nodes = self._store.node_rows
        answer: Ints = np.empty(len(self._filters), np.int32)
        total = scans.find_covered(
            self._store.addresses,
            self._handle_count,
            np.array(rows, np.int64),
            signature,
            met,
            self._signatures,
            np.empty(nodes, np.int64),
            np.empty((nodes, len(rows)), np.uint8),
            np.zeros(nodes, np.uint8),
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
        total = scans.find_overlapping(
            self._store.addresses,
            self._handle_count,
            pattern.edge == 0,
            self._symbols.find(pattern.label),
            barred,
            answer,
        )
        return answer[:total].copy()

    def lay_out(self) -> None:
        """Lay the lists out anew; runs do so by themselves when it is due."""
        self._store.lay_out(len(self._symbols))
        self._changes = 0

    @property
    def _handle_count(self) -> int:
        return min(len(self._store.arrays["handles"]) // Filed.length_in(), len(self._signatures))

    def _write_rows(self, node: Node, cells: list[int]) -> int:
        """Append the pattern in postorder as `add_pattern` wants it; return the signature of its labels."""
        intern = self._symbols.intern
        edge, label, tests, children = node
        signature = 0
        for test in tests:
            cells += (intern(test), SELF, 0)
        for child in children:
            signature |= self._write_rows(child, cells)
        symbol = intern(label)
        cells += (symbol, edge, len(tests) + len(children))
        return signature | _bit(symbol)

    def _write_bits(self, node: Node, rows: list[tuple[int, int, int]], met: Longs) -> int:
        """Append the pattern in postorder as `find_covered` wants it; return its signature, -1 if nothing can fit."""
        below = 0
        signature = 0
        for test in node.tests:
            symbols = self._symbols.meeting(test)
            if not symbols:
                return -1
            if len(rows) < MAX_SCANNED:
                met[symbols] |= 1 << len(rows)
            below |= 1 << len(rows)
            rows.append((-1, SELF, 0))
        for child in node.children:
            more = self._write_bits(child, rows, met)
            if more < 0:
                return -1
            signature |= more
            below |= 1 << (len(rows) - 1)
        symbol = self._symbols.find(node.label)
        if symbol < 0:
            return -1
        rows.append((symbol, node.edge, below))
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
        cells: list[int] = []
        if met:
            for element, number in zip(document.owner, document.attribute, strict=True):
                for symbol in met.get(number, ()):
                    cells += (symbol, element)
        return cells

    def _lay_pattern(self, node: Node, above: int, level: int, cells: list[int], tests: list[int]) -> None:
        """Append the pattern as a target; a wildcard of it is an element whose name is not known."""
        find = self._symbols.find
        while True:
            edge, label, asked, children = node
            here = len(cells) // 4
            level += edge or 1
            cells += (above, edge == 0, level, -1 if label == WILDCARD else find(label))
            for test in asked:
                for symbol in self._symbols.met_by(test[0], test[1] if len(test) == 2 else None):
                    tests += (symbol, here)
            if len(children) != 1:
                break
            node, above = children[0], here
        for child in children:
            self._lay_pattern(child, here, level, cells, tests)

    def _run(self, rows: Ints, elements: int, tests: list[int]) -> Ints | None:
        """Run all patterns over the target and return the handles found; None if it needs too much room."""
        store = self._store
        if self._changes * 4 > store.node_count > MIN_LAID_OUT:
            self.lay_out()
        count = len(tests) // 2
        store.make_run_room(elements, elements + count, len(self._filters), len(self._symbols))
        met = np.array(tests, np.int32) if tests else _NOTHING
        total = run_target(store.addresses, rows, elements, met, count)
        while total < 0:
            if len(store.arrays["places"]) > MAX_PLACES:
                return None
            store.grow_places()
            total = run_target(store.addresses, rows, elements, met, count)
        found: Ints = store.arrays["found"][:total]
        return found.copy()


def _bit(symbol: int) -> int:
    """Return the bit that stands for a label in a signature; the wildcard has none."""
    return 0 if symbol == WILDCARD_SYMBOL else 1 << (symbol % 63)
