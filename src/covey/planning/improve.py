"""Local improvement of a dissemination tree: one link in, one link of the cycle out, while it pays.

A link that joins a tree closes a cycle; taking out any other link of it leaves a tree again. On the cycle, each
publisher or host of a document stands where its part of the tree hangs. The document uses the whole cycle but for the
one gap, between two such places that follow each other, in which the missing link lies; off the cycle nothing
changes. So one look at each document tells what it saves for every link that could go, by adding the length of each
gap to the links in it.

Sampled documents are few, and a tree fitted to them alone can be worse for all others: which link goes is decided by
the training documents, and whether by documents held out, which must not become dearer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs, called, kernel
from covey.planning.documents import Documents
from covey.planning.graph import Mask
from covey.planning.tree import Tree

Arrays: TypeAlias = tuple[Ints, Longs, Ints, Floats]  # of documents

ROUNDS = 4
TOLERANCE = 1e-9  # of the cost: less is rounding


@dataclass(frozen=True)
class Improvement:
    """The tree after swaps, how many were made, and what both sets of documents cost before and after."""

    tree: Tree
    swaps: int
    training: tuple[float, float]
    held_out: tuple[float, float]


def improve_by_swaps(
    tree: Tree,
    training: Documents,
    held_out: Documents,
    *,
    multiplicities: Floats | None = None,
    rounds: int = ROUNDS,
) -> Improvement:
    """Return the tree with links swapped while the training documents gain and those held out do not lose.

    Links are tried in the order of their multiplicities, the greatest first, then by number; `rounds` is how often at
    most all are tried. Neither set of documents can end dearer than it began.
    """
    graph = tree.graph
    for documents in (training, held_out):
        documents.check_nodes(graph)
    if rounds < 0:
        raise PlanError(f"the number of rounds cannot be {rounds}")
    known = np.zeros(len(graph.ends)) if multiplicities is None else multiplicities
    order = np.argsort(-graph.check_link_values(known, "multiplicities"), kind="stable")
    before = (tree.cost(training), tree.cost(held_out))
    tolerance = (TOLERANCE * before[0], TOLERANCE * before[1])
    swaps = 0
    for _ in range(rounds):
        tree, made = _round(tree, order, training, held_out, tolerance)
        swaps += made
        if not made:
            break
    after = (tree.cost(training), tree.cost(held_out))
    return Improvement(tree, swaps, (before[0], after[0]), (before[1], after[1]))


def _round(
    tree: Tree, order: Longs, training: Documents, held_out: Documents, tolerance: tuple[float, float]
) -> tuple[Tree, int]:
    """Try each link once."""
    graph = tree.graph
    made = 0
    start = 0
    while True:
        inside = np.zeros(len(graph.ends), np.bool_)
        inside[tree.links] = True
        at, gone = _next_swap(
            tree.parent,
            tree.parent_link,
            tree.place,
            tree.order,
            graph.ends,
            graph.costs,
            order,
            start,
            inside,
            (training.publishers, training.offsets, training.hosts, training.weights),
            (held_out.publishers, held_out.offsets, held_out.hosts, held_out.weights),
            tolerance,
        )
        if at < 0:
            return tree, made
        inside[gone] = False
        inside[order[at]] = True
        tree = Tree(graph, np.flatnonzero(inside), tree.root)
        made += 1
        start = at + 1


@kernel
def _next_swap(
    parent: Ints,
    parent_link: Ints,
    place_of: Ints,
    preorder: Ints,
    ends: Ints,
    costs: Floats,
    order: Longs,
    start: int,
    inside: Mask,
    training: Arrays,
    held_out: Arrays,
    tolerance: tuple[float, float],
) -> tuple[int, int]:
    """Return the place of the first link from `start` on that pays and the link that it replaces, or -1."""
    nodes = len(parent)
    cycle = np.empty(nodes, np.int32)
    along = np.empty(nodes, np.int32)
    where = np.empty(nodes, np.int32)
    gains = np.empty(nodes + 1, np.float64)
    others = np.empty(nodes + 1, np.float64)
    length = np.empty(nodes + 1, np.float64)
    most = 1
    for number in range(len(training[0])):
        most = max(most, training[1][number + 1] - training[1][number] + 1)
    for number in range(len(held_out[0])):
        most = max(most, held_out[1][number + 1] - held_out[1][number] + 1)
    spots = np.empty(most, np.int32)
    for at in range(start, len(order)):
        link = order[at]
        if inside[link]:
            continue
        count = _cycle(parent, place_of, ends[link, 0], ends[link, 1], cycle)
        _hang(parent, preorder, cycle, count, where)
        _measure(parent, parent_link, costs, cycle, count, link, along, length)
        _gains(training, where, length, count, spots, gains)
        chosen = -1
        for place in range(count - 1):  # the last link of the cycle is the new one
            if gains[place] - gains[count - 1] > tolerance[0] and (
                chosen < 0 or gains[place] > gains[chosen]
            ):
                chosen = place
        if chosen >= 0:
            _gains(held_out, where, length, count, spots, others)
            if others[chosen] - others[count - 1] >= -tolerance[1]:
                return at, along[chosen]
    return -1, -1


@called
def _cycle(parent: Ints, place_of: Ints, a: int, b: int, cycle: Ints) -> int:
    """Write the nodes of the path from a to b and return how many there are."""
    left, right = 0, len(cycle)
    while a != b:
        if place_of[a] > place_of[b]:  # an ancestor comes first in preorder: a is none of b
            cycle[left] = a
            left += 1
            a = parent[a]
        else:
            right -= 1
            cycle[right] = b
            b = parent[b]
    cycle[left] = a
    left += 1
    while right < len(cycle):
        cycle[left] = cycle[right]
        left += 1
        right += 1
    return left


@called
def _hang(parent: Ints, preorder: Ints, cycle: Ints, count: int, where: Ints) -> None:
    """Write for each node the place on the cycle where its part of the tree hangs."""
    where[:] = -1
    top = 0
    for place in range(count):
        where[cycle[place]] = place
    for at in range(len(preorder)):  # the first node of the cycle in preorder is its top
        if where[preorder[at]] >= 0:
            top = where[preorder[at]]
            break
    for at in range(len(preorder)):
        node = preorder[at]
        if where[node] < 0:
            above = parent[node]
            where[node] = top if above < 0 else where[above]


@called
def _measure(
    parent: Ints,
    parent_link: Ints,
    costs: Floats,
    cycle: Ints,
    count: int,
    link: int,
    along: Ints,
    length: Floats,
) -> None:
    """Write the link that follows each place of the cycle, and how far each place is from the first."""
    length[0] = 0.0
    for place in range(count):
        node = cycle[place]
        if place + 1 == count:
            along[place] = link
        elif parent[node] == cycle[place + 1]:
            along[place] = parent_link[node]
        else:
            along[place] = parent_link[cycle[place + 1]]
        length[place + 1] = length[place] + costs[along[place]]


@called
def _gains(documents: Arrays, where: Ints, length: Floats, count: int, spots: Ints, gains: Floats) -> None:
    """Write for each link of the cycle the length of the gaps that it lies in, over all documents by weight."""
    publishers, offsets, hosts, weights = documents
    whole = length[count]
    gains[: count + 1] = 0.0
    everywhere = 0.0
    for number in range(len(publishers)):
        spots[0] = where[publishers[number]]
        found = 1
        for at in range(offsets[number], offsets[number + 1]):
            spot = where[hosts[at]]
            place = found
            while place > 0 and spots[place - 1] > spot:
                place -= 1
            if place > 0 and spots[place - 1] == spot:
                continue
            for later in range(found, place, -1):
                spots[later] = spots[later - 1]
            spots[place] = spot
            found += 1
        weight = weights[number]
        # Gains are kept as differences: what is added at a place holds from there on.
        for place in range(1, found):
            gap = weight * (length[spots[place]] - length[spots[place - 1]])
            gains[spots[place - 1]] += gap
            gains[spots[place]] -= gap
        first, last = spots[0], spots[found - 1]
        around = weight * (whole - (length[last] - length[first]))
        everywhere += around
        gains[first] -= around
        gains[last] += around
    running = everywhere
    for place in range(count):
        running += gains[place]
        gains[place] = running
