"""Where a pattern fits: in a document, to match it, or in another pattern, to cover it.

Both are one question: can the nodes of the pattern be mapped to the nodes of a target tree so that labels, tests and
edges are kept? A mapping into a document is a match. A mapping of P into Q (a homomorphism) shows that P covers Q,
because whatever matches Q brings Q's nodes along, and through them P's. The rules of a mapping:

    label     the same label, or the pattern's is the wildcard (a wildcard of the target is only reached by one)
    tests     every test of the pattern's node is a test, or an attribute, of the target's node
    edge 0    the target's node is joined to the image of the parent by an edge 0
    edge n    the target's node lies below the image of the parent, at least n levels, counting an edge m as max(m, 1)

Mappings compose and the identity is one, so covering by mapping is transitive and reflexive. Every node of the
pattern is tried once against every node of the target: O(nm). Between patterns, edges 0 from the top are followed by
hand, which settles most cases at once. What hangs by an edge n is then tried against what lies below nodes of one level
of the target, which have nothing in common: O(nm) still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from covey.core.xpath.pattern import WILDCARD, Node, Test

NO_ATTRIBUTES: Mapping[str, str | None] = {}


class Target:
    """A tree into which patterns are mapped: flat, parents before children, node 0 the top one.

    `exact[i]` says whether node i is certainly a child of its parent, `depth[i]` how many levels below the document
    it lies at least. An attribute of value None is present with a value that is not known.
    """

    __slots__ = ("attributes", "by_label", "depth", "exact", "parent")

    def __init__(
        self,
        labels: Iterable[str],
        parent: Sequence[int],
        depth: Sequence[int],
        exact: Sequence[bool],
        attributes: Mapping[int, Mapping[str, str | None]],
    ) -> None:
        self.parent = parent
        self.depth = depth
        self.exact = exact
        self.attributes = attributes
        by_label: dict[str, list[int]] = {}
        for position, label in enumerate(labels):
            places = by_label.get(label)
            if places is None:
                by_label[label] = [position]
            else:
                places.append(position)
        self.by_label = by_label


def target_of(pattern: Node) -> Target:
    """Return the pattern as a target for other patterns."""
    labels: list[str] = []
    parent: list[int] = []
    depth: list[int] = []
    exact: list[bool] = []
    attributes: dict[int, Mapping[str, str | None]] = {}

    def lay(node: Node, above: int, level: int) -> None:
        here = len(labels)
        level += node.edge or 1
        labels.append(node.label)
        parent.append(above)
        depth.append(level)
        exact.append(node.edge == 0)
        if node.tests:
            attributes[here] = _attributes(node.tests)
        for child in node.children:
            lay(child, here, level)

    lay(pattern, -1, 0)
    return Target(labels, parent, depth, exact, attributes)


def pattern_covers(general: Node, special: Node) -> bool:
    """Return whether `general` maps into `special`, and so covers it."""
    if general.edge == 0:
        return special.edge == 0 and _maps(general, special)
    if general.label != WILDCARD and not _occurs(general.label, special):
        return False
    return fits(general, target_of(special))


def _maps(general: Node, special: Node) -> bool:
    """Return whether `general` with all below it maps into `special` with its top node on the top node.

    Along edges 0 a node has few candidates, and each pair of nodes is met once at most.
    """
    _, label, tests, children = general
    _, special_label, special_tests, special_children = special
    if label != special_label and label != WILDCARD:
        return False
    if tests and not _holds(tests, _attributes(special_tests)):
        return False
    for child in children:
        if child[0]:
            if not _maps_below(child, special):
                return False
        else:
            for other in special_children:
                if other[0] == 0 and _maps(child, other):
                    break
            else:
                return False
    return True


def _maps_below(child: Node, special: Node) -> bool:
    """Return whether `child`, which hangs by an edge n, maps into what is below the top node of `special`."""
    if not special.children or (child.label != WILDCARD and not _occurs(child.label, special)):
        return False
    target = target_of(special)
    depth = target.depth
    limit = depth[0] + child.edge
    return any(depth[place] >= limit for place in _places(child, target))


def _attributes(tests: tuple[Test, ...]) -> Mapping[str, str | None]:
    return {test[0]: test[1] if len(test) == 2 else None for test in tests}


def _occurs(label: str, pattern: Node) -> bool:
    while pattern.label != label:
        children = pattern.children
        if len(children) != 1:
            return any(_occurs(label, child) for child in children)
        pattern = children[0]
    return True


def fits(pattern: Node, target: Target) -> bool:
    """Return whether the pattern maps into the target, its top edge starting at the document."""
    places = _places(pattern, target)
    if pattern.edge == 0:
        return 0 in places and target.exact[0]
    depth = target.depth
    return any(depth[place] >= pattern.edge for place in places)


def _places(node: Node, target: Target) -> Sequence[int]:
    """Return the target's nodes to which `node` can be mapped together with all below it."""
    places: Sequence[int]
    if node.label == WILDCARD:
        places = range(len(target.parent))
    else:
        places = target.by_label.get(node.label, ())
    if node.tests and places:
        attributes = target.attributes
        places = [p for p in places if _holds(node.tests, attributes.get(p, NO_ATTRIBUTES))]
    for child in node.children:
        if not places:
            return places
        below = _places(child, target)
        above = _parents(below, target) if child.edge == 0 else _ancestors(below, child.edge, target)
        places = [p for p in places if p in above]
    return places


def _holds(tests: tuple[Test, ...], attributes: Mapping[str, str | None]) -> bool:
    for test in tests:
        if test[0] not in attributes:
            return False
        if len(test) == 2 and attributes[test[0]] != test[1]:
            return False
    return True


def _parents(places: Sequence[int], target: Target) -> set[int]:
    parent, exact = target.parent, target.exact
    return {parent[p] for p in places if exact[p]}


def _ancestors(places: Sequence[int], levels: int, target: Target) -> set[int]:
    """Return the nodes that lie at least `levels` above one of `places`."""
    parent, depth = target.parent, target.depth
    found: set[int] = set()
    for place in places:
        limit = depth[place] - levels
        above = parent[place]
        while above >= 0 and depth[above] > limit:
            above = parent[above]
        # Once an ancestor is found, all above it were found with it.
        while above >= 0 and above not in found:
            found.add(above)
            above = parent[above]
    return found
