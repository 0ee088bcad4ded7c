"""One form for each meaning, as far as mappings can tell.

    wildcards    A bare wildcard with one branch only counts levels, so it is folded into an edge that counts them:
                 /a/*//b, /a//*/b are a with b at least 2 levels below. At the end of a path /a/* and /a//* both say
                 that a has something below it.
    branches     A branch that another branch of the same node implies is dropped; the others are sorted.
    tests        [@a] is dropped beside [@a='v']; two values for one attribute can never hold and are refused.

Two patterns in this form that cover each other are equal. The reason: a pattern with a mapping into itself that is
not the identity has one that fixes the image; the topmost node it moves goes, with its branch, into a sibling's branch,
and such a branch was dropped. So a mapping there and back is the identity, and each way must keep every edge.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from covey.core.xpath.containment import pattern_covers
from covey.core.xpath.pattern import WILDCARD, Node, Test
from covey.errors import FilterError


def make_node(edge: int, label: str, tests: Iterable[Test], children: Iterable[Node]) -> Node:
    """Return the canonical node of these parts, whose children are canonical already.

    Raises FilterError when two tests contradict each other.
    """
    return fold(edge, label, reduce_tests(tests), reduce_branches(children))


def fold(edge: int, label: str, tests: tuple[Test, ...], children: tuple[Node, ...]) -> Node:
    """Return the node with bare wildcards folded into the edge; tests and children are canonical."""
    while label == WILDCARD and not tests:
        if not children:
            return Node(edge or 1, label, tests, children)
        child = children[0]
        if len(children) > 1 or (edge == 0 and child.edge == 0):
            break
        edge = (edge or 1) + (child.edge or 1)
        label, tests, children = child.label, child.tests, child.children
    return Node(edge, label, tests, children)


def reduce_tests(tests: Iterable[Test]) -> tuple[Test, ...]:
    """Return the tests sorted by name, one for each attribute."""
    by_name: dict[str, Test] = {}
    for test in tests:
        known = by_name.get(test[0])
        if known is None or len(known) == 1:
            by_name[test[0]] = test
        elif len(test) == 2 and test[1] != known[1]:
            raise FilterError(
                f"attribute {test[0]!r} cannot have two values at once, {known[1]!r} and {test[1]!r}",
                hint="a filter that can match nothing is refused",
            )
    return tuple(sorted(by_name.values()))


def reduce_branches(branches: Iterable[Node]) -> tuple[Node, ...]:
    """Return the branches sorted, without those that another one implies."""
    kept = tuple(sorted(set(branches)))
    return kept if len(kept) < 2 else tuple(b for i, b in enumerate(kept) if not _implied(i, kept))


def is_canonical(edge: int, label: str, tests: tuple[Test, ...], children: tuple[Node, ...]) -> bool:
    """Return whether `make_node` would leave these parts, whose children are canonical, as they are."""
    if label == WILDCARD and not tests:
        if not children:
            return edge > 0
        if len(children) == 1 and (edge or children[0].edge):
            return False
    for i in range(1, len(tests)):
        if tests[i - 1][0] >= tests[i][0]:
            return False
    return len(children) < 2 or _are_reduced(children)


def _are_reduced(branches: tuple[Node, ...]) -> bool:
    for i in range(1, len(branches)):
        if branches[i - 1] >= branches[i]:
            return False
    for one, two in combinations(branches, 2):
        if pattern_covers(one, two):
            return False
        if pattern_covers(two, one):
            return False
    return True


def _implied(position: int, branches: tuple[Node, ...]) -> bool:
    # Distinct canonical branches never imply each other both ways, so judging all against all loses none.
    branch = branches[position]
    return any(other is not branch and pattern_covers(branch, other) for other in branches)
