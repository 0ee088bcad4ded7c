"""Steiner trees: the cheapest way to carry one document, if it had the network to itself.

The tree of a document starts at its publisher; the host nearest to any node of the tree joins it by a shortest path
until all have (Takahashi and Matsuyama's heuristic, at most twice as dear as the best tree, a few per cent in
practice). Its cost is the lower mark against which dissemination trees are measured, up to the heuristic's error; the
number of Steiner trees that cross a link, its multiplicity, says which links matter. Where a floor is reported,
`best_steiner_costs` closes most of the error by inserting nodes. `exact_cost` is the algorithm of Dreyfus and Wagner,
for few terminals: it shows what the error is.

With all pairs known, the path from the nearest node of the tree to host t follows row t of `via`, and meets no other
node of the tree: each node on it is nearer to t than the tree is. So nothing needs to be marked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs, called, kernel
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.paths import AllPaths, shortest

MAX_EXACT_TERMINALS = 14
MOST_INSERTED = (
    20_000  # brokers × terminals², up to which inserting nodes is tried: about a tenth of a millisecond
)
MOST_STEINER = 6  # nodes that are inserted


def steiner_costs(paths: AllPaths, documents: Documents) -> Floats:
    """Return the cost of each document's Steiner tree times the document's weight.

    Raises PlanError if a host cannot be reached from its publisher.
    """
    costs, _ = steiner(paths, documents)
    return costs


def link_multiplicities(paths: AllPaths, documents: Documents) -> Floats:
    """Return for each link the weight of all documents whose Steiner tree it is in."""
    _, multiplicities = steiner(paths, documents)
    return multiplicities


def steiner(paths: AllPaths, documents: Documents) -> tuple[Floats, Floats]:
    """Return `steiner_costs` and `link_multiplicities`, computed together."""
    graph = paths.graph
    documents.check_deliverable(graph)
    costs = np.zeros(len(documents))
    multiplicities = np.zeros(len(graph.ends))
    _steiner(
        paths.distance.ravel(),
        paths.via.ravel(),
        graph.across,
        graph.costs,
        documents.publishers,
        documents.offsets,
        documents.hosts,
        documents.weights,
        costs,
        multiplicities,
    )
    return costs, multiplicities


def best_steiner_costs(paths: AllPaths, documents: Documents) -> Floats:
    """Return the least that is known for each document: of `steiner_costs`, and of a tree with nodes inserted.

    Nodes are inserted one by one into the terminals, always the one with which a spanning tree of paths between all of
    them becomes shortest, and are taken out again when they no longer help (the iterated 1-Steiner heuristic). A
    document is tried if brokers × terminals² is at most MOST_INSERTED, so that its time does not depend on others.
    """
    plain = steiner_costs(paths, documents)
    if len(documents) == 0:
        return plain
    chosen = np.empty((len(documents), MOST_STEINER), np.int32)
    _insert(paths.distance, documents.publishers, documents.offsets, documents.hosts, MOST_INSERTED, chosen)
    gained = np.flatnonzero(chosen[:, 0] >= 0)
    if not len(gained):
        return plain
    some = documents.take(gained)
    rows = [
        (publisher, [*some.hosts_of(number).tolist(), *(node for node in chosen[row].tolist() if node >= 0)])
        for number, (publisher, row) in enumerate(zip(some.publishers.tolist(), gained.tolist(), strict=True))
    ]
    found = plain.copy()
    found[gained] = np.minimum(plain[gained], steiner_costs(paths, Documents.of(rows, some.weights)))
    return found


def steiner_links(paths: AllPaths, publisher: int, hosts: Iterable[int]) -> Ints:
    """Return the links of one Steiner tree, sorted."""
    _, crossed = steiner(paths, Documents.of([(publisher, hosts)]))
    return np.flatnonzero(crossed).astype(np.int32)


def exact_cost(graph: Graph, terminals: Iterable[int]) -> float:
    """Return the cost of the cheapest tree that joins these nodes; PlanError for many of them or if none does.

    Time grows as 3^k n + 2^k n² with k terminals.
    """
    *others, last = sorted(set(terminals)) or [0]
    if len(others) >= MAX_EXACT_TERMINALS:
        raise PlanError(f"exact Steiner trees are for at most {MAX_EXACT_TERMINALS} terminals")
    if not 0 <= min([*others, last]) <= last < graph.nodes:
        raise PlanError(f"terminals must be among {graph.nodes} nodes")
    far = np.array([shortest(graph, graph.costs, node)[0] for node in range(graph.nodes)])
    # best[S][v]: the cheapest tree with the terminals of the bit set S and node v.
    best = np.full((1 << len(others), graph.nodes), np.inf)
    for number, terminal in enumerate(others):
        best[1 << number] = far[terminal]
    for subset in range(1, 1 << len(others)):
        half = (subset - 1) & subset
        while half > subset ^ half:  # every way to part the subset in two, the larger number first
            np.minimum(best[subset], best[half] + best[subset ^ half], out=best[subset])
            half = (half - 1) & subset
        best[subset] = np.min(best[subset][:, None] + far, axis=0)
    cost = float(best[-1, last]) if others else 0.0
    if not np.isfinite(cost):
        raise PlanError("no path joins the terminals")
    return cost


@kernel
def _steiner(
    distance: Any,
    via: Any,
    across: Ints,
    costs: Floats,
    publishers: Ints,
    offsets: Longs,
    hosts: Ints,
    weights: Floats,
    totals: Floats,
    multiplicities: Floats,
) -> None:
    """Add up the Steiner tree of each document; every host can be reached, and the square arrays come flat.

    Places are unsigned, which spares the check for negative ones in the innermost loop.
    """
    nodes = np.uint64(np.sqrt(float(len(distance))) + 0.5)
    most = 0
    for number in range(len(publishers)):
        most = max(most, offsets[number + 1] - offsets[number])
    waiting = np.empty(most, np.int32)
    row = np.empty(most, np.uint64)
    joint = np.empty(most, np.int32)
    nearest = np.empty(most, np.float64)
    for number in range(len(publishers)):
        count = 0
        publisher, weight = publishers[number], weights[number]
        for place in range(offsets[number], offsets[number + 1]):
            host = hosts[place]
            if host != publisher:
                waiting[count] = host
                row[count] = np.uint64(host) * nodes
                joint[count] = publisher
                nearest[count] = distance[row[count] + np.uint64(publisher)]
                count += 1
        total = 0.0
        while count > 0:
            chosen = 0
            for place in range(1, count):
                if nearest[place] < nearest[chosen] or (
                    nearest[place] == nearest[chosen] and waiting[place] < waiting[chosen]
                ):
                    chosen = place
            host, node, start = waiting[chosen], joint[chosen], row[chosen]
            count -= 1
            waiting[chosen] = waiting[count]
            row[chosen] = row[count]
            joint[chosen] = joint[count]
            nearest[chosen] = nearest[count]
            while node != host:
                link = np.uint64(via[start + np.uint64(node)])
                node = across[link] ^ node
                total += costs[link]
                multiplicities[link] += weight
                for place in range(count):
                    far = float(distance[row[place] + np.uint64(node)])
                    if far < nearest[place]:
                        nearest[place] = far
                        joint[place] = node
        totals[number] = total * weight


@kernel
def _insert(
    distance: Any,
    publishers: Ints,
    offsets: Longs,
    hosts: Ints,
    most: int,
    chosen: Any,
) -> None:
    """Write for each document the nodes whose insertion shortens the spanning tree of its terminals, and -1 behind."""
    nodes = len(distance)
    room = chosen.shape[1]
    for number in range(len(publishers)):
        chosen[number, :] = -1
        count = offsets[number + 1] - offsets[number] + 1
        if count < 3 or nodes * count * count > most:
            continue
        ends = np.empty(count + room + 1, np.int32)
        ends[0] = publishers[number]
        given = 1
        for place in range(offsets[number], offsets[number + 1]):
            if hosts[place] != publishers[number]:
                ends[given] = hosts[place]
                given += 1
        size = given
        now = _spanning(distance, ends, size)
        while size < given + room:
            best, least = -1, now * (1.0 - 1e-9)
            for node in range(nodes):
                ends[size] = node
                cost = _spanning(distance, ends, size + 1)
                if cost < least:
                    best, least = node, cost
            if best < 0:
                break
            ends[size] = best
            size += 1
            now = least
            place = given
            while place < size:  # a node that was inserted may have become useless
                gone = ends[place]
                ends[place] = ends[size - 1]
                cost = _spanning(distance, ends, size - 1)
                if cost <= now * (1.0 + 1e-9):
                    size -= 1
                    now = cost
                else:
                    ends[place] = gone
                    place += 1
        for place in range(given, size):
            chosen[number, place - given] = ends[place]


@called
def _spanning(distance: Any, ends: Ints, size: int) -> float:
    """Return the length of the shortest tree that joins these nodes by paths between them: Prim's algorithm."""
    near = np.empty(size, np.float64)
    for place in range(1, size):
        near[place] = distance[ends[0], ends[place]]
    left = size - 1
    where = np.empty(size, np.int32)
    for place in range(1, size):
        where[place - 1] = place
    total = 0.0
    while left > 0:
        best = 0
        for at in range(1, left):
            if near[where[at]] < near[where[best]]:
                best = at
        joined = where[best]
        total += near[joined]
        left -= 1
        where[best] = where[left]
        for at in range(left):
            far = float(distance[ends[joined], ends[where[at]]])
            if far < near[where[at]]:
                near[where[at]] = far
    return total
