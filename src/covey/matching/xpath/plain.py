"""The XPath index once more, in plain Python: the twin that the kernels are tested against.

The same shared graph and the same walk, with dictionaries and sets in the place of arrays. Slow, short, and the text to
read first: a node is (label or test, kids), a kid is (edge, node), and equal nodes are one because equal tuples are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from covey.core.xpath.containment import Target, target_of
from covey.core.xpath.filter import XPathFilter, as_document, patterns_overlap
from covey.core.xpath.pattern import WILDCARD, Node, Test

ITSELF = -1


class Shared(NamedTuple):
    """A node of the shared graph; its kids hang by ITSELF (tests) or by the edges of patterns."""

    symbol: str | Test
    kids: tuple[tuple[int, Shared], ...]


class PlainIndex:
    """Filters by handle, with the contract of XPathIndex."""

    def __init__(self) -> None:
        self.tops: dict[int, tuple[int, Shared]] = {}
        self.filters: dict[int, XPathFilter] = {}
        self.references: Counter[Shared] = Counter()

    def __len__(self) -> int:
        return len(self.filters)

    @property
    def node_count(self) -> int:
        """The number of nodes that the patterns share."""
        return len(self.references)

    def add(self, handle: int, filter: XPathFilter) -> None:
        """Enter the filter under a handle that is not in use."""
        self.tops[handle] = (filter.pattern.edge, _shared(filter.pattern))
        self.filters[handle] = filter
        self._hold(self.tops[handle][1])

    def remove(self, handle: int, filter: XPathFilter) -> None:
        """Remove what was entered under the handle."""
        del self.filters[handle]
        self._let_go(self.tops.pop(handle)[1])

    def match(self, content: object) -> set[int]:
        """Return the handles whose filter matches the document."""
        document = as_document(content)
        return set() if document is None else self._run(document.target)

    def covering(self, filter: XPathFilter) -> set[int]:
        """Return the handles whose filter covers the given one: the run over a pattern."""
        return self._run(target_of(filter.pattern))

    def covered(self, filter: XPathFilter) -> set[int]:
        """Return the handles whose filter the given one covers."""
        return {handle for handle, other in self.filters.items() if filter.covers(other)}

    def overlapping(self, filter: XPathFilter) -> set[int]:
        """Return the handles whose filter overlaps the given one."""
        return {h for h, other in self.filters.items() if patterns_overlap(filter.pattern, other.pattern)}

    def _hold(self, node: Shared) -> None:
        self.references[node] += 1
        if self.references[node] == 1:
            for _, kid in node.kids:
                self._hold(kid)

    def _let_go(self, node: Shared) -> None:
        self.references[node] -= 1
        if self.references[node] == 0:
            del self.references[node]
            for _, kid in node.kids:
                self._let_go(kid)

    def _run(self, target: Target) -> set[int]:
        """Find where every shared node fits, kids before their parents, then judge the tops."""
        places: dict[Shared, set[int]] = {}
        for node in sorted(self.references, key=_rank):
            fitting = _leaf_places(node.symbol, target)
            for edge, kid in node.kids:
                fitting &= _above(edge, places[kid], target)
            places[node] = fitting
        found = set()
        for handle, (edge, top) in self.tops.items():
            if edge == 0:
                good = 0 in places[top] and target.exact[0]
            else:
                good = any(target.depth[place] >= edge for place in places[top])
            if good:
                found.add(handle)
        return found


def _shared(node: Node) -> Shared:
    tests = tuple((ITSELF, Shared(test, ())) for test in node.tests)
    return Shared(node.label, tests + tuple((child.edge, _shared(child)) for child in node.children))


def _rank(node: Shared) -> int:
    return 1 + max((_rank(kid) for _, kid in node.kids), default=-1)


def _leaf_places(symbol: str | Test, target: Target) -> set[int]:
    if symbol == WILDCARD:
        return set(range(len(target.parent)))
    if isinstance(symbol, str):
        return set(target.by_label.get(symbol, ()))
    held: defaultdict[Test, set[int]] = defaultdict(set)
    for place, attributes in target.attributes.items():
        for name, value in attributes.items():
            held[name,].add(place)
            if value is not None:
                held[name, value].add(place)
    return set(held[symbol])


def _above(edge: int, places: set[int], target: Target) -> set[int]:
    """Return where a parent may be when its kid, hanging by `edge`, is at `places`."""
    if edge == ITSELF:
        return set(places)
    if edge == 0:
        return {target.parent[place] for place in places if target.exact[place]}
    found = set()
    for place in places:
        above = target.parent[place]
        while above >= 0:
            if target.depth[place] - target.depth[above] >= edge:
                found.add(above)
            above = target.parent[above]
    return found
