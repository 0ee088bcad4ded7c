"""One pattern for two: what both demand, found by walking the two trees together.

A pattern covers both exactly when it maps into both, and then it maps into their product, whose nodes are pairs of
nodes. Node (p, q) keeps what p and q share: the label or else a wildcard, the common tests; below it hang the pairs of
children, and pairs of deeper nodes with the same label at the smaller of the two distances. The whole product would
be the smallest such pattern but grows without bound, so pairs that share no label are only walked child by child, each
node keeps its most telling branches, and the work is bounded. Every pattern built this way covers both, however
much is left out.
"""

from __future__ import annotations

from covey.core.xpath.canonical import fold, reduce_branches
from covey.core.xpath.pattern import WILDCARD, Node, Test, node_count
from covey.core.xpath.text import check_size
from covey.errors import FilterError

MAX_BRANCHES = 4
MAX_MERGED_NODES = 32
MAX_PAIRS = 512
EVERYTHING = Node(1, WILDCARD, (), ())


def merge_patterns(one: Node, two: Node) -> Node:
    """Return a pattern that covers both, as special as the bounded search finds; the order does not matter."""
    one, two = sorted((one, two))
    merged = _Product().branches((one,), (two,))[0]
    for pattern in (merged, _chain(merged)):
        try:
            check_size(pattern)
        except FilterError:
            continue
        return pattern
    return EVERYTHING


class _Product:
    """The walk over pairs of nodes, each pair judged once."""

    def __init__(self) -> None:
        self.known: dict[tuple[Node, Node], Node] = {}
        self.pairs_left = MAX_PAIRS

    def branches(self, ones: tuple[Node, ...], twos: tuple[Node, ...]) -> list[Node]:
        """Return what both parents have in common below them, the most telling first, never nothing."""
        found = {self.pair(a, b, _edge(a, b)) for a in ones for b in twos}
        deep_twos = _descendants(twos)
        for label, places in _descendants(ones).items():
            for a, distance_a in places:
                for b, distance_b in deep_twos.get(label, ()):
                    found.add(self.pair(a, b, min(distance_a, distance_b)))
        branches = sorted(found, key=_rank)[: 2 * MAX_BRANCHES]
        kept: list[Node] = []
        size = 0
        for branch in sorted(reduce_branches(branches), key=_rank)[:MAX_BRANCHES]:
            size += node_count(branch)
            if kept and size > MAX_MERGED_NODES:
                break
            kept.append(branch)
        return kept

    def pair(self, one: Node, two: Node, edge: int) -> Node:
        """Return the node for the pair, hanging by `edge`."""
        node = self.known.get((one, two))
        if node is None:
            if self.pairs_left <= 0:
                return Node(edge or 1, WILDCARD, (), ())
            self.pairs_left -= 1
            label = one.label if one.label == two.label else WILDCARD
            below = self.branches(one.children, two.children) if one.children and two.children else []
            node = Node(0, label, _common(one.tests, two.tests), tuple(sorted(below)))
            self.known[one, two] = node
        return fold(edge, node.label, node.tests, node.children)


def _chain(node: Node) -> Node:
    """Return the pattern with only the most telling branch of every node."""
    below = tuple(_chain(child) for child in sorted(node.children, key=_rank)[:1])
    return fold(node.edge, node.label, node.tests, below)


def _edge(one: Node, two: Node) -> int:
    if one.edge == two.edge:
        return one.edge
    return min(one.edge or 1, two.edge or 1)


def _common(one: tuple[Test, ...], two: tuple[Test, ...]) -> tuple[Test, ...]:
    others = {test[0]: test for test in two}
    return tuple(test if others[test[0]] == test else (test[0],) for test in one if test[0] in others)


def _descendants(nodes: tuple[Node, ...]) -> dict[str, list[tuple[Node, int]]]:
    """Return the named nodes at and below `nodes` by label, each with its least distance from their parent."""
    found: dict[str, list[tuple[Node, int]]] = {}
    waiting = [(node, 0) for node in nodes]
    while waiting:
        node, above = waiting.pop()
        distance = above + (node.edge or 1)
        if node.label != WILDCARD or node.tests:
            found.setdefault(node.label, []).append((node, distance))
        waiting.extend((child, distance) for child in node.children)
    return found


def _telling(node: Node) -> int:
    """Return how much a pattern demands, roughly: names most, then tests, exact edges and levels."""
    own = (
        (0 if node.label == WILDCARD else 8)
        + 4 * sum(map(len, node.tests))
        + (2 if node.edge == 0 else 0)
        + 1
    )
    return own + sum(map(_telling, node.children))


def _rank(node: Node) -> tuple[int, Node]:
    return (-_telling(node), node)
